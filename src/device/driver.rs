//! Checks every result of the driver in one place.
//!
//! All of `device` calls `cudarc::driver::sys` directly: cudarc's own stream and event tracking does not work in a
//! recorded graph.

use std::ffi::CStr;

use cudarc::driver::sys::{self, CUresult, CUstream};

use super::Result;
use super::error::Error;
use crate::fault::{Call, Faults, How};

/// Converts the result of a call.
pub(super) fn check(call: &'static str, result: CUresult) -> Result<()> {
    if result == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    if result == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
        return Err(Error::NoMemory { call });
    }
    let mut name = std::ptr::null();
    // SAFETY: the driver returns a string of its own, or leaves `name` null.
    let known = unsafe { sys::cuGetErrorName(result, &raw mut name) } == CUresult::CUDA_SUCCESS;
    let name = if known && !name.is_null() {
        // SAFETY: a NUL-terminated string that lives as long as the driver does.
        unsafe { CStr::from_ptr(name) }
            .to_string_lossy()
            .into_owned()
    } else {
        format!("{result:?}")
    };
    Err(Error::Driver {
        call,
        name,
        code: result as u32,
    })
}

/// Makes a call of a decode graph, or fails as a test has requested. `stream` is the stream of the call, if it has one.
pub(super) fn attempt(
    (kind, call): (Call, &'static str),
    faults: &Faults,
    stream: Option<CUstream>,
    make: impl FnOnce() -> CUresult,
) -> Result<CUresult> {
    let refused = |code: CUresult| Error::Driver {
        call,
        name: "refused on purpose".into(),
        code: code as u32,
    };
    match faults.strike(kind) {
        None => Ok(make()),
        Some(How::Before) => Err(refused(CUresult::CUDA_ERROR_NOT_PERMITTED)),
        Some(How::Lost) => Err(refused(CUresult::CUDA_ERROR_LAUNCH_FAILED)),
        Some(How::After) => {
            check(call, make())?;
            Err(refused(CUresult::CUDA_ERROR_NOT_PERMITTED))
        }
        Some(How::Synchronize) => {
            if let Some(stream) = stream {
                // SAFETY: it is the caller's stream. During a capture the driver refuses, as intended.
                ignore(unsafe { sys::cuStreamSynchronize(stream) });
            }
            Ok(make())
        }
    }
}

/// Ignores the result of freeing something: the caller cannot handle an error, and a sticky one occurs again.
pub(super) fn ignore(_: CUresult) {}

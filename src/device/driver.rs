//! Checks every answer of the driver, in one place. All of `device` calls `cudarc::driver::sys` alone:
//! nothing of cudarc's own stream and event tracking, which a recorded graph cannot hold.

use std::ffi::CStr;

use cudarc::driver::sys::{self, CUresult};

use super::{Error, Result};

/// The error that a call's answer stands for.
pub(super) fn check(call: &'static str, result: CUresult) -> Result<()> {
    if result == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let mut name = std::ptr::null();
    // SAFETY: the driver answers with a string of its own, or leaves `name` null.
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

/// For what is given back: nobody is left to hear of a failure, and a sticky one is met again.
pub(super) fn ignore(_: CUresult) {}

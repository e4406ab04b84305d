//! A partition of a device's multiprocessors, as a context of its own (a green context). Its work runs on no other
//! multiprocessors. Memory and bandwidth are shared with the whole device.

use std::mem::MaybeUninit;

use cudarc::driver::sys::{
    self, CUcontext, CUdevResource, CUdevResourceType, CUdevice, CUgreenCtx,
    CUgreenCtxCreate_flags, CUresult, CUstream, CUstream_flags,
};

use super::Result;
use super::driver::{check, ignore};
use super::error::Error;

/// The driver calls for partitions, which exist since CUDA 12.4. On some systems the library is older than its version
/// number says.
const CALLS: [&str; 7] = [
    "cuDeviceGetDevResource",
    "cuDevSmResourceSplitByCount",
    "cuDevResourceGenerateDesc",
    "cuGreenCtxCreate",
    "cuGreenCtxDestroy",
    "cuGreenCtxStreamCreate",
    "cuCtxFromGreenCtx",
];

/// A green context, which holds the device's primary context itself.
#[derive(Debug)]
pub(super) struct Partition {
    handle: CUgreenCtx,
    multiprocessors: u32,
}

impl Partition {
    /// Creates a partition with at least `wanted` multiprocessors. The driver allocates them in groups, of eight on an
    /// H100.
    ///
    /// # Errors
    /// If the driver does not support partitions or this size.
    pub(super) fn new(device: CUdevice, wanted: u32) -> Result<Self> {
        for call in CALLS {
            if !is_there(call) {
                return Err(Error::NoPartitions { call });
            }
        }
        let all = resources(device)?;
        let have = multiprocessors(&all);
        if wanted == 0 || wanted > have {
            return Err(Error::Partition { wanted, have });
        }
        let mut group = MaybeUninit::<CUdevResource>::zeroed();
        let mut groups = 1;
        // SAFETY: one group is requested and `group` has room for one; the rest is not requested.
        let split = check("cuDevSmResourceSplitByCount", unsafe {
            sys::cuDevSmResourceSplitByCount(
                group.as_mut_ptr(),
                &raw mut groups,
                &raw const all,
                std::ptr::null_mut(),
                0,
                wanted,
            )
        });
        match split {
            // The rounded number exceeds the device.
            Err(error) if error.is(CUresult::CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION) => {
                return Err(Error::Partition { wanted, have });
            }
            split => split?,
        }
        if groups != 1 {
            return Err(Error::Partition { wanted, have });
        }
        // SAFETY: the driver has written it.
        let mut group = unsafe { group.assume_init() };
        let mut description = std::ptr::null_mut();
        // SAFETY: it reads one group and writes one pointer.
        check("cuDevResourceGenerateDesc", unsafe {
            sys::cuDevResourceGenerateDesc(&raw mut description, &raw mut group, 1)
        })?;
        let mut handle = std::ptr::null_mut();
        let flags = CUgreenCtxCreate_flags::CU_GREEN_CTX_DEFAULT_STREAM as u32;
        // SAFETY: the description is of this device's multiprocessors, and `Drop` destroys the context.
        check("cuGreenCtxCreate", unsafe {
            sys::cuGreenCtxCreate(&raw mut handle, description, device, flags)
        })?;
        Ok(Self {
            handle,
            multiprocessors: multiprocessors(&group),
        })
    }

    /// The context that can be made current on a thread.
    pub(super) fn context(&self) -> Result<CUcontext> {
        let mut context = std::ptr::null_mut();
        // SAFETY: the handle is ours, and the written context lives as long as the handle.
        check("cuCtxFromGreenCtx", unsafe {
            sys::cuCtxFromGreenCtx(&raw mut context, self.handle)
        })?;
        Ok(context)
    }

    /// Creates a stream whose work runs on this partition only. The caller destroys it.
    pub(super) fn stream(&self) -> Result<CUstream> {
        let mut stream = std::ptr::null_mut();
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the handle is ours, and one pointer is written.
        check("cuGreenCtxStreamCreate", unsafe {
            sys::cuGreenCtxStreamCreate(&raw mut stream, self.handle, flags, 0)
        })?;
        Ok(stream)
    }

    /// The number of multiprocessors.
    pub(super) fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        // SAFETY: `new` created it, and all of its streams are gone, because they hold the `Context` that holds this.
        ignore(unsafe { sys::cuGreenCtxDestroy(self.handle) });
    }
}

/// Whether the driver has a call. cudarc would end the process at a missing one.
fn is_there(call: &str) -> bool {
    // SAFETY: a device was opened, so the library is loaded and stays loaded.
    let library = unsafe { sys::culib() };
    // SAFETY: the symbol is looked up and not called, so its type does not matter.
    unsafe { library.get::<unsafe extern "C" fn()>(call.as_bytes()) }.is_ok()
}

/// All multiprocessors of a device.
fn resources(device: CUdevice) -> Result<CUdevResource> {
    let mut all = MaybeUninit::<CUdevResource>::zeroed();
    let kind = CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM;
    // SAFETY: it writes one resource.
    check("cuDeviceGetDevResource", unsafe {
        sys::cuDeviceGetDevResource(device, all.as_mut_ptr(), kind)
    })?;
    // SAFETY: the driver has written it.
    Ok(unsafe { all.assume_init() })
}

fn multiprocessors(resource: &CUdevResource) -> u32 {
    // SAFETY: this module creates only resources of the kind SM.
    unsafe { resource.__bindgen_anon_1.sm.smCount }
}

//! Host memory that the GPU sees: small and one-shot, for it is not cached by an integrated GPU.

use std::ptr::NonNull;
use std::rc::Rc;

use cudarc::driver::sys;

use super::driver::{check, ignore};
use super::{Context, Error, Result};

/// Page-locked host memory, mapped into the GPU's address space. All zeroes at first.
#[derive(Debug)]
pub struct Pinned {
    host: NonNull<u8>,
    bytes: usize,
    device: u64,
    _context: Rc<Context>,
}

impl Pinned {
    pub fn new(context: &Rc<Context>, bytes: usize) -> Result<Self> {
        let mut host = std::ptr::null_mut();
        let flags = sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: the context is current on this thread; `Drop` gives the memory back.
        check("cuMemHostAlloc", unsafe {
            sys::cuMemHostAlloc(&raw mut host, bytes, flags)
        })?;
        let host = NonNull::new(host.cast::<u8>()).ok_or(Error::Bounds { bytes })?;
        // SAFETY: the driver gave `bytes` bytes there, and nobody else knows of them.
        unsafe { host.write_bytes(0, bytes) };
        let mut pinned = Self {
            host,
            bytes,
            device: 0,
            _context: Rc::clone(context),
        };
        // SAFETY: the memory was allocated mapped.
        let result = unsafe {
            sys::cuMemHostGetDevicePointer_v2(&raw mut pinned.device, host.as_ptr().cast(), 0)
        };
        check("cuMemHostGetDevicePointer", result)?;
        Ok(pinned)
    }

    /// Where the GPU sees it.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.device
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where the CPU sees it. The GPU may be reading or writing it: an owner says who does when.
    pub(super) fn host(&self) -> NonNull<u8> {
        self.host
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: it came from cuMemHostAlloc; the driver waits for the copies that use it.
        ignore(unsafe { sys::cuMemFreeHost(self.host.as_ptr().cast()) });
    }
}

//! Host memory that the GPU can access. It is for small, single transfers, because an integrated GPU does not cache it.

use std::ptr::NonNull;
use std::rc::Rc;

use cudarc::driver::sys;

use super::Result;
use super::context::Context;
use super::driver::{check, ignore};
use super::error::Error;

/// Page-locked host memory, mapped into the GPU's address space. It is initialized with zeros.
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
        // The driver does not allocate 0 bytes, of which an executor without a cache has some.
        let allocated = bytes.max(1);
        // SAFETY: the context is current on this thread, and `Drop` frees the memory.
        check("cuMemHostAlloc", unsafe {
            sys::cuMemHostAlloc(&raw mut host, allocated, flags)
        })?;
        let host = NonNull::new(host.cast::<u8>()).ok_or(Error::Bounds { bytes })?;
        // SAFETY: the driver allocated `bytes` bytes there, and nothing else uses them.
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

    /// The address for the GPU.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.device
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address for the CPU. The GPU may access the memory at the same time: the owner has to order the accesses.
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

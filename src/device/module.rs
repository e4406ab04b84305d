//! Code that was loaded onto the device.

use std::ffi::CStr;
use std::rc::Rc;

use cudarc::driver::sys::{self, CUfunction, CUmodule};

use super::driver::{check, ignore};
use super::{Context, Result};

/// A loaded module: its code stays on the device for as long as a kernel of it is held.
#[derive(Debug)]
pub(super) struct Module {
    handle: CUmodule,
    context: Rc<Context>,
}

impl Module {
    /// `code` is a cubin, which says how long it is, or PTX that ends in a NUL: the build keeps the one that the compiler
    /// writes.
    pub(super) fn load(context: &Rc<Context>, code: &[u8]) -> Result<Self> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the context is current on this thread, and the code ends as the driver expects.
        check("cuModuleLoadData", unsafe {
            sys::cuModuleLoadData(&raw mut handle, code.as_ptr().cast())
        })?;
        Ok(Self {
            handle,
            context: Rc::clone(context),
        })
    }

    /// A function of it.
    pub(super) fn function(&self, name: &CStr) -> Result<CUfunction> {
        let mut function = std::ptr::null_mut();
        // SAFETY: the module is loaded and `name` ends in a NUL.
        let result =
            unsafe { sys::cuModuleGetFunction(&raw mut function, self.handle, name.as_ptr()) };
        check("cuModuleGetFunction", result)?;
        Ok(function)
    }

    /// Shared memory that a block may have on its device.
    pub(super) fn shared_bytes(&self) -> usize {
        self.context.properties().shared_bytes
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: it was loaded once, and no kernel of it is held.
        ignore(unsafe { sys::cuModuleUnload(self.handle) });
    }
}

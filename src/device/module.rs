//! Code that was loaded onto the device.

use std::ffi::CStr;
use std::rc::Rc;

use cudarc::driver::sys::{self, CUfunction, CUmodule};

use super::Result;
use super::context::Context;
use super::driver::{check, ignore};

/// A loaded module. Its code stays on the device while one of its kernels is held.
#[derive(Debug)]
pub(super) struct Module {
    handle: CUmodule,
    context: Rc<Context>,
}

impl Module {
    /// Loads a cubin, which contains its length, or PTX that ends with a NUL, as the compiler writes it.
    pub(super) fn load(context: &Rc<Context>, code: &[u8]) -> Result<Self> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the context is current on this thread, and the code has the end that the driver expects.
        check("cuModuleLoadData", unsafe {
            sys::cuModuleLoadData(&raw mut handle, code.as_ptr().cast())
        })?;
        Ok(Self {
            handle,
            context: Rc::clone(context),
        })
    }

    /// Looks up a function.
    pub(super) fn function(&self, name: &CStr) -> Result<CUfunction> {
        let mut function = std::ptr::null_mut();
        // SAFETY: the module is loaded and `name` ends in a NUL.
        let result =
            unsafe { sys::cuModuleGetFunction(&raw mut function, self.handle, name.as_ptr()) };
        check("cuModuleGetFunction", result)?;
        Ok(function)
    }

    /// Shared memory that a block can have on the device.
    pub(super) fn shared_bytes(&self) -> usize {
        self.context.properties().shared_bytes
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: it was loaded once, and none of its kernels is held.
        ignore(unsafe { sys::cuModuleUnload(self.handle) });
    }
}

//! A mark in a stream: when the device came past it.

use std::rc::Rc;

use cudarc::driver::sys::{self, CUevent, CUevent_flags, CUresult};

use super::driver::{check, ignore};
use super::{Context, Result, Stream};

/// A mark that can be waited for, and between two of which time can be measured.
#[derive(Debug)]
pub struct Event {
    handle: CUevent,
    _context: Rc<Context>,
}

impl Event {
    pub fn new(context: &Rc<Context>) -> Result<Self> {
        let mut handle = std::ptr::null_mut();
        let flags = CUevent_flags::CU_EVENT_BLOCKING_SYNC as u32;
        // SAFETY: the context is current on this thread; `Drop` gives the event back.
        check("cuEventCreate", unsafe {
            sys::cuEventCreate(&raw mut handle, flags)
        })?;
        Ok(Self {
            handle,
            _context: Rc::clone(context),
        })
    }

    /// Marks the end of what `stream` holds now. Not while it is being recorded: a graph holds kernels only.
    pub fn record(&mut self, stream: &mut Stream) -> Result<()> {
        // SAFETY: both are ours, of the same context.
        check("cuEventRecord", unsafe {
            sys::cuEventRecord(self.handle, stream.handle())
        })
    }

    /// Waits until the device has come past the mark; the thread sleeps meanwhile.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the event is ours.
        check("cuEventSynchronize", unsafe {
            sys::cuEventSynchronize(self.handle)
        })
    }

    /// Whether the device has come past the mark.
    pub fn is_past(&self) -> Result<bool> {
        // SAFETY: the event is ours.
        match unsafe { sys::cuEventQuery(self.handle) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => check("cuEventQuery", result).map(|()| true),
        }
    }

    /// Milliseconds from an earlier mark to this one, both past.
    ///
    /// # Errors
    /// If one of them was never recorded, or is not past.
    pub fn milliseconds_since(&self, earlier: &Self) -> Result<f32> {
        let mut milliseconds = 0.0;
        // SAFETY: both are ours; one number is written.
        let result =
            unsafe { sys::cuEventElapsedTime(&raw mut milliseconds, earlier.handle, self.handle) };
        check("cuEventElapsedTime", result).map(|()| milliseconds)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event is ours.
        ignore(unsafe { sys::cuEventDestroy_v2(self.handle) });
    }
}

//! An event: a point in a stream that the device reaches.

use std::rc::Rc;

use cudarc::driver::sys::{self, CUevent, CUevent_flags, CUresult};

use super::Result;
use super::context::Context;
use super::driver::{check, ignore};
use super::stream::Stream;

/// A point that can be waited for. The time between two of them can be measured.
#[derive(Debug)]
pub struct Event {
    handle: CUevent,
    _context: Rc<Context>,
}

impl Event {
    pub fn new(context: &Rc<Context>) -> Result<Self> {
        let mut handle = std::ptr::null_mut();
        let flags = CUevent_flags::CU_EVENT_BLOCKING_SYNC as u32;
        // SAFETY: the context is current on this thread, and `Drop` destroys the event.
        check("cuEventCreate", unsafe {
            sys::cuEventCreate(&raw mut handle, flags)
        })?;
        Ok(Self {
            handle,
            _context: Rc::clone(context),
        })
    }

    /// Records the event after all work on `stream`. This is not allowed during a capture, because a graph contains
    /// kernels only.
    pub fn record(&mut self, stream: &mut Stream) -> Result<()> {
        // SAFETY: both are ours, of the same context.
        check("cuEventRecord", unsafe {
            sys::cuEventRecord(self.handle, stream.handle())
        })
    }

    /// Waits until the device has reached the event. The thread sleeps.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the event is ours.
        check("cuEventSynchronize", unsafe {
            sys::cuEventSynchronize(self.handle)
        })
    }

    /// Whether the device has reached the event.
    pub fn is_past(&self) -> Result<bool> {
        // SAFETY: the event is ours.
        match unsafe { sys::cuEventQuery(self.handle) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => check("cuEventQuery", result).map(|()| true),
        }
    }

    /// Milliseconds from an earlier event to this one, after both were reached.
    ///
    /// # Errors
    /// If one of them was never recorded or has not been reached.
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

//! The engine's stream. Putting work on it borrows it mutably, so an `Idle`, which borrows it too, stays true as long
//! as it exists.

use std::rc::Rc;

use cudarc::driver::sys::{self, CUresult, CUstream, CUstream_flags, CUstreamCaptureMode};

use super::Result;
use super::captured::Captured;
use super::context::Context;
use super::driver::{attempt, check, ignore};
use super::error::Error;
use crate::fault::Call;

/// An ordered queue of work that does not wait for the default stream.
#[derive(Debug)]
pub struct Stream {
    handle: CUstream,
    context: Rc<Context>,
}

/// Proof that no work is on a stream, as long as it is held.
#[derive(Debug)]
pub struct Idle<'s> {
    stream: &'s mut Stream,
}

impl Stream {
    pub fn new(context: &Rc<Context>) -> Result<Self> {
        let handle = match context.partition() {
            Some(partition) => partition.stream()?,
            None => of_current_context()?,
        };
        Ok(Self {
            handle,
            context: Rc::clone(context),
        })
    }

    #[must_use]
    pub fn context(&self) -> &Rc<Context> {
        &self.context
    }

    /// Waits for all queued work. The thread sleeps.
    pub fn synchronize(&mut self) -> Result<()> {
        // SAFETY: the stream is ours.
        check("cuStreamSynchronize", unsafe {
            sys::cuStreamSynchronize(self.handle)
        })
    }

    /// Whether all queued work has ended.
    pub fn is_idle(&self) -> Result<bool> {
        // SAFETY: the stream is ours.
        match unsafe { sys::cuStreamQuery(self.handle) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => check("cuStreamQuery", result).map(|()| true),
        }
    }

    /// Waits until the stream is idle, and returns a proof. With an emulated Tegra, unfinished work is an error
    /// instead, because the CPU's next access would be a fault there.
    ///
    /// # Errors
    /// If queued work has failed, or the stream is busy and a Tegra is emulated.
    pub fn idle(&mut self) -> Result<Idle<'_>> {
        if self.context.emulates_tegra() {
            if !self.is_idle()? {
                return Err(Error::Busy);
            }
        } else {
            self.synchronize()?;
        }
        Ok(Idle { stream: self })
    }

    pub(super) fn handle(&self) -> CUstream {
        self.handle
    }

    /// Starts a capture: work is recorded instead of run. Only this thread's calls are checked.
    pub(crate) fn begin_capture(&mut self) -> Result<()> {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        let call = (Call::BeginCapture, "cuStreamBeginCapture");
        let result = attempt(call, self.context.faults(), Some(self.handle), || {
            // SAFETY: the stream is ours.
            unsafe { sys::cuStreamBeginCapture_v2(self.handle, mode) }
        });
        check(call.1, result?)
    }

    /// Ends the capture, and returns the recording.
    pub(crate) fn end_capture(&mut self) -> Result<Captured> {
        let mut graph = std::ptr::null_mut();
        let call = (Call::EndCapture, "cuStreamEndCapture");
        let result = attempt(call, self.context.faults(), Some(self.handle), || {
            // SAFETY: the stream is ours, and the caller owns the graph.
            unsafe { sys::cuStreamEndCapture(self.handle, &raw mut graph) }
        });
        // A graph is destroyed even if the call failed.
        let captured = (!graph.is_null()).then(|| Captured::new(graph, &self.context));
        check(call.1, result?)?;
        captured.ok_or_else(|| Error::NotAKernel("nothing was recorded".into()))
    }
}

impl Idle<'_> {
    pub(super) fn handle(&self) -> CUstream {
        self.stream.handle
    }
}

fn of_current_context() -> Result<CUstream> {
    let mut handle = std::ptr::null_mut();
    let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
    // SAFETY: a context is current on this thread, and the stream's `Drop` destroys it.
    check("cuStreamCreate", unsafe {
        sys::cuStreamCreate(&raw mut handle, flags)
    })?;
    Ok(handle)
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream is ours, and queued work can still end.
        ignore(unsafe { sys::cuStreamDestroy_v2(self.handle) });
    }
}

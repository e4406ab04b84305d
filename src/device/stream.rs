//! The engine's stream. Whatever puts work on it borrows it mutably, so a proof that it is idle, which
//! borrows it too, holds for as long as it is kept.

use std::rc::Rc;

use cudarc::driver::sys::{self, CUresult, CUstream, CUstream_flags, CUstreamCaptureMode};

use super::driver::{attempt, check, ignore};
use super::{Captured, Context, Error, Result};
use crate::fault::Call;

/// An ordered queue of work that does not wait for the default stream.
#[derive(Debug)]
pub struct Stream {
    handle: CUstream,
    context: Rc<Context>,
}

/// Proof that nothing runs on a stream, and that nothing will while it is held.
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

    /// Waits for all that is queued; the thread sleeps meanwhile.
    pub fn synchronize(&mut self) -> Result<()> {
        // SAFETY: the stream is ours.
        check("cuStreamSynchronize", unsafe {
            sys::cuStreamSynchronize(self.handle)
        })
    }

    /// Whether all that was queued has ended.
    pub fn is_idle(&self) -> Result<bool> {
        // SAFETY: the stream is ours.
        match unsafe { sys::cuStreamQuery(self.handle) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => check("cuStreamQuery", result).map(|()| true),
        }
    }

    /// Waits until nothing runs, and proves it. Where the context emulates a Tegra it does not wait: a
    /// launch in flight is an error, because there the CPU's next access would have been a fault.
    ///
    /// # Errors
    /// If anything queued has failed, or the stream is busy and a Tegra is emulated.
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

    /// From here on, work is recorded rather than run. Only what this thread does is checked for calls
    /// that cannot be recorded.
    pub(crate) fn begin_capture(&mut self) -> Result<()> {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        let call = (Call::BeginCapture, "cuStreamBeginCapture");
        let result = attempt(call, self.context.faults(), Some(self.handle), || {
            // SAFETY: the stream is ours.
            unsafe { sys::cuStreamBeginCapture_v2(self.handle, mode) }
        });
        check(call.1, result?)
    }

    /// Ends what `begin_capture` began, and gives what was recorded.
    pub(crate) fn end_capture(&mut self) -> Result<Captured> {
        let mut graph = std::ptr::null_mut();
        let call = (Call::EndCapture, "cuStreamEndCapture");
        let result = attempt(call, self.context.faults(), Some(self.handle), || {
            // SAFETY: the stream is ours; the graph belongs to the caller from here on.
            unsafe { sys::cuStreamEndCapture(self.handle, &raw mut graph) }
        });
        // Whatever became of it, a graph that was given is given back.
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
    // SAFETY: a context is current on this thread; the stream's `Drop` gives it back.
    check("cuStreamCreate", unsafe {
        sys::cuStreamCreate(&raw mut handle, flags)
    })?;
    Ok(handle)
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream is ours, and what is queued may still end.
        ignore(unsafe { sys::cuStreamDestroy_v2(self.handle) });
    }
}

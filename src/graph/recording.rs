//! A capture in progress, as a guard.

use crate::device::{Captured, Result, Stream};

/// Work on the stream is recorded instead of run. Dropping the guard ends the capture and discards the recording, so that no
/// error leaves the stream unusable.
#[derive(Debug)]
pub struct Recording<'s> {
    stream: Option<&'s mut Stream>,
}

impl<'s> Recording<'s> {
    /// # Errors
    /// If the driver refuses, for example during another capture of the stream.
    pub fn begin(stream: &'s mut Stream) -> Result<Self> {
        // A begin that reports an error may have started the capture, so the guard has to exist first.
        let mut guard = Self {
            stream: Some(stream),
        };
        if let Some(stream) = guard.stream.as_deref_mut() {
            stream.begin_capture()?;
        }
        Ok(guard)
    }

    /// Records the work that `work` puts on the stream.
    ///
    /// # Errors
    /// The error of `work`, or an error if the driver cannot record the work.
    pub fn record<E: From<crate::device::Error>>(
        mut self,
        work: impl FnOnce(&mut Stream) -> std::result::Result<(), E>,
    ) -> std::result::Result<Captured, E> {
        let Some(stream) = self.stream.as_deref_mut() else {
            unreachable!("only the end of this method takes the stream");
        };
        work(stream)?;
        let captured = stream.end_capture()?;
        self.stream = None;
        Ok(captured)
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            // Any result is discarded, including the error if no capture is in progress.
            drop(stream.end_capture());
        }
    }
}

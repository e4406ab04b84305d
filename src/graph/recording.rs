//! A capture in progress, as a guard.

use crate::device::{Captured, Result, Stream};

/// What is put on the stream meanwhile is recorded rather than run. Dropped, it ends the capture and throws
/// the result away, so that no error leaves the stream stuck.
#[derive(Debug)]
pub struct Recording<'s> {
    stream: Option<&'s mut Stream>,
}

impl<'s> Recording<'s> {
    /// # Errors
    /// If the driver refuses, as it does while another capture of the stream is in progress.
    pub fn begin(stream: &'s mut Stream) -> Result<Self> {
        // The guard comes first: a begin that is reported as failed may have been made.
        let mut guard = Self {
            stream: Some(stream),
        };
        if let Some(stream) = guard.stream.as_deref_mut() {
            stream.begin_capture()?;
        }
        Ok(guard)
    }

    /// Records what `work` puts on the stream.
    ///
    /// # Errors
    /// What `work` says; or if the driver found something that cannot be recorded.
    pub fn record<E: From<crate::device::Error>>(
        mut self,
        work: impl FnOnce(&mut Stream) -> std::result::Result<(), E>,
    ) -> std::result::Result<Captured, E> {
        let Some(stream) = self.stream.as_deref_mut() else {
            unreachable!("it is taken below, and `self` with it");
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
            // A failed capture gives no graph, a good one is not wanted, and where none is in progress the driver
            // only says so.
            drop(stream.end_capture());
        }
    }
}

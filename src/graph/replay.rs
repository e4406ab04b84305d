//! A recorded graph that can be launched. It has no state "not yet".

use super::Renewal;
use crate::device::{Captured, Exec, Result, Stream};

/// An executable graph of kernels only, and the recording it was made from.
#[derive(Debug)]
pub struct Graph {
    exec: Exec,
    captured: Captured,
    /// What it did before: given back once the device is busy again, for that takes the driver a while.
    retired: Option<Captured>,
    nodes: usize,
}

impl Graph {
    /// Makes a recording executable and brings it to the device.
    ///
    /// # Errors
    /// If it holds anything but kernels, or the driver refuses.
    pub fn new(captured: Captured, stream: &mut Stream) -> Result<Self> {
        let nodes = captured.kernels()?;
        let mut exec = captured.instantiate()?;
        exec.upload(stream)?;
        Ok(Self {
            exec,
            captured,
            retired: None,
            nodes,
        })
    }

    /// Makes it do what another recording does: by an update, which takes a fraction of the time, or else,
    /// whyever that was refused, by a new instance. After an error what it does is unknown.
    ///
    /// # Errors
    /// If the recording holds anything but kernels, or the driver refuses.
    pub fn renew(&mut self, captured: Captured, stream: &mut Stream) -> Result<Renewal> {
        // An update is refused where a node is of another kind, so counting is enough here.
        let updated = captured.nodes()? == self.nodes
            && match self.exec.update(&captured) {
                Ok(updated) => updated,
                Err(lost) if lost.is_sticky() => return Err(lost),
                Err(_) => false,
            };
        let renewal = if updated {
            Renewal::Updated
        } else {
            self.nodes = captured.kernels()?;
            self.exec = captured.instantiate()?;
            Renewal::Instantiated
        };
        self.retired = Some(std::mem::replace(&mut self.captured, captured));
        self.exec.upload(stream)?;
        Ok(renewal)
    }

    /// Queues one replay.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn launch(&mut self, stream: &mut Stream) -> Result<()> {
        self.exec.launch(stream)?;
        self.retired = None;
        Ok(())
    }

    /// How many kernels one replay runs.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The graph in DOT.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn dot(&self) -> Result<String> {
        self.captured.dot()
    }
}

//! A recorded graph that can be launched.

use super::event::Renewal;
use super::trace::Trace;
use crate::device::{Captured, Exec, Result, Stream, Template};

/// An executable graph of kernels, and the recording that it was made from.
#[derive(Debug)]
pub struct Graph {
    exec: Exec,
    template: Template,
    /// The launches of the template; empty if they are unknown.
    trace: Trace,
    /// The previous template. It is freed while the device is busy, because freeing takes the driver some time.
    retired: Option<Template>,
}

impl Graph {
    /// Makes a recording of the launches in `trace` executable and brings it to the device.
    ///
    /// # Errors
    /// If the recording contains a node other than a kernel, or the driver refuses.
    pub fn new(captured: Captured, trace: Trace, stream: &mut Stream) -> Result<Self> {
        let template = Template::new(captured)?;
        let mut exec = Exec::of(&template)?;
        exec.upload(stream)?;
        Ok(Self {
            exec,
            template,
            trace,
            retired: None,
        })
    }

    /// Changes launches of the template without another recording.
    ///
    /// `write` gets the old trace, sets the launches that differ, and fills the new trace. Returns false if the number of
    /// launches differs or the driver refuses; the template then needs another recording.
    pub fn rewrite(
        &mut self,
        write: impl FnOnce(&mut Template, &Trace, &mut Trace) -> Result<()>,
    ) -> Result<bool> {
        let was = std::mem::take(&mut self.trace);
        let mut is = Trace::default();
        match write(&mut self.template, &was, &mut is) {
            Ok(()) if is.launches() == self.template.kernels() => {
                self.trace = is;
                Ok(true)
            }
            Err(lost) if lost.is_sticky() => Err(lost),
            Ok(()) | Err(_) => Ok(false),
        }
    }

    /// Replaces the template, which `renew` then applies.
    ///
    /// # Errors
    /// If the recording contains a node other than a kernel, or the driver refuses.
    pub fn replace(&mut self, captured: Captured, trace: Trace) -> Result<()> {
        let template = Template::new(captured)?;
        self.retired = Some(std::mem::replace(&mut self.template, template));
        self.trace = trace;
        Ok(())
    }

    /// Applies the template to the executable graph: by an update, which is faster, or by a new instance if the driver refuses.
    ///
    /// After an error the executable graph must not be launched.
    pub fn renew(&mut self, stream: &mut Stream) -> Result<Renewal> {
        let renewal = match self.exec.update(&self.template) {
            Ok(true) => Renewal::Updated,
            Err(lost) if lost.is_sticky() => return Err(lost),
            Ok(false) | Err(_) => {
                self.exec = Exec::of(&self.template)?;
                Renewal::Instantiated
            }
        };
        self.exec.upload(stream)?;
        Ok(renewal)
    }

    /// Queues one replay on the stream.
    pub fn launch(&mut self, stream: &mut Stream) -> Result<()> {
        self.exec.launch(stream)?;
        self.retired = None;
        Ok(())
    }

    /// The number of kernels of one replay.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.template.kernels()
    }

    /// The graph in DOT.
    pub fn dot(&self) -> Result<String> {
        self.template.dot()
    }
}

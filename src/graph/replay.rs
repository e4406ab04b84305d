//! A recorded graph that can be launched. It has no state "not yet".

use super::{Renewal, Trace};
use crate::device::{Captured, Exec, Result, Stream, Template};

/// An executable graph of kernels only, and the recording it was made from.
#[derive(Debug)]
pub struct Graph {
    exec: Exec,
    template: Template,
    /// What the template is; empty while that is unknown.
    trace: Trace,
    /// What it did before: given back once the device is busy again, for that takes the driver a while.
    retired: Option<Template>,
}

impl Graph {
    /// Makes a recording of the launches in `trace` executable and brings it to the device.
    ///
    /// # Errors
    /// If it holds anything but kernels, or the driver refuses.
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

    /// Lets `write` set those launches of the template that are not as in the trace it is given, and note in the other
    /// one what all of them are then. `false` if they are not those that were recorded, or the driver refused: then
    /// only another recording tells what the template does.
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

    /// Takes another recording as its template, for `renew`.
    ///
    /// # Errors
    /// If it holds anything but kernels, or the driver refuses.
    pub fn replace(&mut self, captured: Captured, trace: Trace) -> Result<()> {
        let template = Template::new(captured)?;
        self.retired = Some(std::mem::replace(&mut self.template, template));
        self.trace = trace;
        Ok(())
    }

    /// Makes it do what its template does now: by an update, which takes a fraction of the time, or else, whyever that
    /// was refused, by a new instance. After an error what it does is unknown.
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

    /// Queues one replay.
    pub fn launch(&mut self, stream: &mut Stream) -> Result<()> {
        self.exec.launch(stream)?;
        self.retired = None;
        Ok(())
    }

    /// How many kernels one replay runs.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.template.kernels()
    }

    /// The graph in DOT.
    pub fn dot(&self) -> Result<String> {
        self.template.dot()
    }
}

//! Steps whose operations note when they begin and end: all of them from now on, or one in passing.

use std::time::Duration;

use super::stamps::{Notes, Stamps};
use super::{Cuda, Error, Launched};
use crate::tape::{ExecuteError, Noted, Span, Tape};

impl Cuda {
    /// From now on operations of a step note when they begin and end.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn measure(&mut self, step: &Tape, noted: Noted) -> Result<(), Error> {
        self.drain()?;
        let mut stamps = Stamps::new(&self.context, step.ops.len(), noted)?;
        stamps.clear(&mut self.stream)?;
        self.stamps = Some(stamps);
        // The addresses of the stamps are new ones.
        self.moves += 1;
        Ok(())
    }

    /// When operations of the last step began and ended, in nanoseconds of the device's clock; empty where
    /// nothing was measured.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn take_spans(&mut self) -> Result<Vec<Option<Span>>, Error> {
        self.drain()?;
        let Some(stamps) = &mut self.stamps else {
            return Ok(Vec::new());
        };
        let spans = stamps.read(&mut self.stream)?;
        stamps.clear(&mut self.stream)?;
        Ok(spans)
    }

    /// Runs one step of the turn that runs, kernel by kernel, each of which notes when it begins and ends; what is
    /// recorded is neither run nor touched. A step that was launched ahead is taken instead, and nothing is noted:
    /// `None`.
    ///
    /// # Errors
    /// As `step`; if there is not enough memory for the notes.
    pub fn time_step(&mut self, tape: &Tape) -> Result<Option<Vec<Option<Span>>>, ExecuteError> {
        if !self.pending.is_empty() {
            self.step(tape, false)?;
            return Ok(None);
        }
        let region = self.region;
        self.fits(region, 1)?;
        let notes = self.notes_in_passing(tape)?;
        let idle = self.idle_since.take();
        self.pace.idle = idle.map_or(Duration::ZERO, |since| since.elapsed());
        self.command(tape, &[region], &[]);
        let (mut step, graph, _) = self.split(tape);
        step.notes = Some(notes);
        let ran = graph.step_eagerly(&mut step);
        let ran = ran.inspect_err(|_| self.lose(&[region]))?;
        self.mark()?;
        self.pending.push_back(Launched::new(ran, &[region]));
        self.take_tokens(1, &[], &[region])?;
        let Some(stamps) = &mut self.in_passing else {
            return Ok(None);
        };
        let spans = stamps.read(&mut self.stream)?;
        stamps.clear(&mut self.stream)?;
        Ok(Some(spans))
    }

    /// Where such a step notes: memory that is taken when somebody first asks, and that no graph knows of.
    fn notes_in_passing(&mut self, tape: &Tape) -> Result<Notes, Error> {
        if self.in_passing.is_none() {
            let mut stamps = Stamps::new(&self.context, tape.ops.len(), Noted::Operations)?;
            stamps.clear(&mut self.stream)?;
            self.in_passing = Some(stamps);
        }
        let stamps = self.in_passing.as_ref().map(Stamps::notes);
        stamps.ok_or(Error::Bounds { bytes: 0 })
    }
}

//! The decode graph: one for the whole process, recorded when it has become invalid, replayed otherwise.
//!
//! It knows a step as a list of operations that can be run, recorded and replayed; not what they compute.
//! Whatever the driver refuses, the step itself still runs, eagerly: no token is lost, none comes twice.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::life::LifeCycle;
use super::{Mode, Reason, Renewal, State, Stepper, Trace};

/// How a step came to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    Eagerly,
    Replayed,
}

/// The graph, in one segment or several, and its life cycle.
#[derive(Debug)]
pub struct DecodeGraph<E> {
    life: LifeCycle,
    /// The step in parts: those that are recorded, and the breaks between them.
    parts: Vec<Part>,
    /// One for each recorded part; kept while it is invalid, so that it can be updated.
    execs: Vec<E>,
    /// What it was recorded against.
    layout: u64,
    trace: Trace,
    /// Whether each replay is checked against `trace`.
    verify: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Recorded(Range<usize>),
    Eager(Range<usize>),
}

impl<E> DecodeGraph<E> {
    #[must_use]
    pub fn new(mode: Mode, verify: bool) -> Self {
        Self {
            life: LifeCycle::new(mode),
            parts: Vec::new(),
            execs: Vec::new(),
            layout: 0,
            trace: Trace::default(),
            verify,
        }
    }

    #[must_use]
    pub fn life(&self) -> &LifeCycle {
        &self.life
    }

    pub fn life_mut(&mut self) -> &mut LifeCycle {
        &mut self.life
    }

    /// What replays it, one for each segment; empty before the first recording.
    #[must_use]
    pub fn execs(&self) -> &[E] {
        &self.execs
    }

    /// Drops what was recorded; the next step records anew, also where failures had disabled it.
    pub fn reset(&mut self) {
        let mode = self.life.mode();
        self.execs.clear();
        self.life.reset(mode, Reason::Reset);
    }

    /// Records in another way from the next step on.
    pub fn set_mode(&mut self, mode: Mode) {
        self.execs.clear();
        self.life.reset(mode, Reason::Mode);
    }

    /// Runs one step: replayed if the graph is valid, recorded and replayed if it is not, eagerly if neither
    /// can be.
    ///
    /// # Errors
    /// What the step itself or the device fails with; a driver that refuses to record or replay is no error.
    pub fn step<S: Stepper<Exec = E>>(&mut self, step: &mut S) -> Result<Ran, S::Error> {
        if !self.life.serves() {
            return self.step_eagerly(step);
        }
        self.check(step);
        let replayed = match self.life.state() {
            State::Valid => self.replay(step),
            _ => self.record(step),
        };
        match replayed {
            Ok(()) => {
                self.life.launched();
                Ok(Ran::Replayed)
            }
            Err(error) if S::is_refusal(&error) => {
                self.life.refused(error.to_string());
                // What was refused may have been done: then the token is on its way.
                if step.settle()? {
                    self.life.launched();
                    return Ok(Ran::Replayed);
                }
                self.step_eagerly(step)
            }
            Err(error) => {
                self.life.abandoned();
                Err(error)
            }
        }
    }

    /// Runs one step operation by operation; what is recorded stays as it is.
    ///
    /// # Errors
    /// What the step itself or the device fails with.
    pub fn step_eagerly<S: Stepper<Exec = E>>(&mut self, step: &mut S) -> Result<Ran, S::Error> {
        step.eager(0..step.operations())?;
        self.life.ran_eagerly();
        Ok(Ran::Eagerly)
    }

    /// Invalidates what was recorded against other addresses or geometries; looks at each of them where that may be, after
    /// a change of the cache that has left it valid, and always if a test asks for it.
    fn check<S: Stepper>(&mut self, step: &mut S) {
        if self.life.state() != State::Valid {
            return;
        }
        let differs = self.layout != step.layout();
        let what = (differs || self.verify || self.life.is_unverified())
            .then(|| self.trace.difference(&step.trace()))
            .flatten();
        if differs || what.is_some() {
            self.life.moved(what);
        } else {
            self.life.verified();
        }
    }

    fn replay<S: Stepper<Exec = E>>(&mut self, step: &mut S) -> Result<(), S::Error> {
        let mut execs = self.execs.iter_mut();
        for part in &self.parts {
            match (part, part.is_recorded().then(|| execs.next()).flatten()) {
                (_, Some(exec)) => step.launch(exec)?,
                (Part::Recorded(range) | Part::Eager(range), None) => step.eager(range.clone())?,
            }
        }
        Ok(())
    }

    /// Records part after part, and launches each before it goes on: the step that records also yields its
    /// token. The living executable graphs are updated where the driver can.
    fn record<S: Stepper<Exec = E>>(&mut self, step: &mut S) -> Result<(), S::Error> {
        self.life.recording();
        self.layout = step.layout();
        self.parts = cut(self.life.mode(), step);
        let last = self.parts.iter().rposition(Part::is_recorded);
        let (mut nodes, mut updated) = (0, true);
        let mut time = Duration::ZERO;
        let mut index = 0;
        for (at, part) in self.parts.iter().enumerate() {
            let range = match part {
                Part::Recorded(range) => range.clone(),
                Part::Eager(range) => {
                    step.eager(range.clone())?;
                    continue;
                }
            };
            let begun = Instant::now();
            let renewal = if let Some(exec) = self.execs.get_mut(index) {
                step.renew(exec, range)?
            } else {
                let recording = step.record(range)?;
                self.execs.push(step.instantiate(recording)?);
                Renewal::Instantiated
            };
            let took = begun.elapsed();
            updated &= renewal == Renewal::Updated;
            let exec = &mut self.execs[index];
            self.life.renewed(index, renewal, S::nodes(exec), took);
            nodes += S::nodes(exec);
            time += took;
            // It is recorded before it is known whether it can be launched.
            if Some(at) == last {
                self.life.recorded(nodes, updated, time);
            }
            step.launch(exec)?;
            index += 1;
        }
        // The device is busy by now, so this costs no time.
        self.trace = step.trace();
        Ok(())
    }
}

impl Part {
    const fn is_recorded(&self) -> bool {
        matches!(self, Self::Recorded(_))
    }
}

/// The parts of a step: the whole of it, or what lies between breaks.
fn cut<S: Stepper>(mode: Mode, step: &S) -> Vec<Part> {
    let all = 0..step.operations();
    if mode != Mode::Piecewise {
        return vec![Part::Recorded(all)];
    }
    let mut parts = Vec::new();
    let mut from = 0;
    for index in all.clone().filter(|index| step.is_break(*index)) {
        if from < index {
            parts.push(Part::Recorded(from..index));
        }
        parts.push(Part::Eager(index..index + 1));
        from = index + 1;
    }
    if from < all.end {
        parts.push(Part::Recorded(from..all.end));
    }
    parts
}

//! The decode graph: one for the whole process, recorded when it has become invalid, replayed otherwise.
//!
//! It knows a step as a list of operations that can be run, recorded and replayed; not what they compute. A step has one
//! of a few numbers of rows, and each of those executable graphs of its own, which are recorded when it first comes: all
//! are of one life cycle, and what makes the graph invalid makes all of them.
//! Whatever the driver refuses, the step itself still runs, eagerly: no token is lost, none comes twice.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::life::LifeCycle;
use super::{InvalidationReason, Mode, Renewal, State, Stepper, Trace};

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
    /// There is one for each number of rows that a step has had, by that number.
    sizes: Vec<Size<E>>,
    /// Whether each replay is checked against what was recorded.
    verify: bool,
}

/// What steps of one number of rows replay.
#[derive(Debug)]
struct Size<E> {
    rows: usize,
    /// The recordings' state that it is of: it replays as long as that is the life cycle's.
    validity: Option<u64>,
    /// The cache's epoch that it was last recorded or looked at in.
    epoch: u64,
    /// The step in parts: those that are recorded, and the breaks between them.
    parts: Vec<Part>,
    /// One for each recorded part; kept while it is invalid, so that it can be updated.
    execs: Vec<E>,
    /// What it was recorded against.
    layout: u64,
    trace: Trace,
}

impl<E> Size<E> {
    fn of(rows: usize) -> Self {
        Self {
            rows,
            validity: None,
            epoch: 0,
            parts: Vec::new(),
            execs: Vec::new(),
            layout: 0,
            trace: Trace::default(),
        }
    }
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
            sizes: Vec::new(),
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

    /// What replays it, one for each size and segment; none before the first recording.
    pub fn execs(&self) -> impl Iterator<Item = &E> {
        self.sizes.iter().flat_map(|size| &size.execs)
    }

    /// Drops what was recorded; the next step records anew, also where failures had disabled it.
    pub fn reset(&mut self) {
        let mode = self.life.mode();
        self.sizes.clear();
        self.life.reset(mode, InvalidationReason::Reset);
    }

    /// Records in another way from the next step on.
    pub fn set_mode(&mut self, mode: Mode) {
        self.sizes.clear();
        self.life.reset(mode, InvalidationReason::Mode);
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
        let at = self.size(step.rows());
        self.check(at, step);
        let size = &mut self.sizes[at];
        let replayed = if size.validity == Some(self.life.validity()) {
            size.replay(step)
        } else {
            if self.life.state() == State::Valid || self.life.is_unverified() {
                self.life.grows();
            }
            size.record(&mut self.life, step)
        };
        match replayed {
            Ok(()) => {
                self.life.launched();
                Ok(Ran::Replayed)
            }
            Err(error) if S::is_refusal(&error) => {
                self.life.refused(S::refused(&error));
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
    pub fn step_eagerly<S: Stepper<Exec = E>>(&mut self, step: &mut S) -> Result<Ran, S::Error> {
        step.eager(0..step.operations())?;
        self.life.ran_eagerly();
        Ok(Ran::Eagerly)
    }

    /// The place of what steps of so many rows replay.
    fn size(&mut self, rows: usize) -> usize {
        let known = self.sizes.iter().position(|size| size.rows == rows);
        known.unwrap_or_else(|| {
            self.sizes.push(Size::of(rows));
            self.sizes.len() - 1
        })
    }

    /// Invalidates what was recorded against other addresses or geometries; looks at each of them where that may be, after
    /// a change of the cache, and always if a test asks for it. What is as it was recorded is valid again.
    fn check<S: Stepper>(&mut self, at: usize, step: &mut S) {
        let size = &mut self.sizes[at];
        if size.validity != Some(self.life.validity()) {
            return;
        }
        let differs = size.layout != step.layout();
        let what = (differs || self.verify || size.epoch != self.life.epoch())
            .then(|| size.trace.difference(&step.trace()))
            .flatten();
        if differs || what.is_some() {
            self.life.moved(what);
        } else {
            size.epoch = self.life.epoch();
            self.life.verified();
        }
    }
}

impl<E> Size<E> {
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
    fn record<S: Stepper<Exec = E>>(
        &mut self,
        life: &mut LifeCycle,
        step: &mut S,
    ) -> Result<(), S::Error> {
        life.recording();
        self.validity = None;
        self.epoch = life.epoch();
        self.layout = step.layout();
        self.parts = cut(life.mode(), step);
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
            life.renewed(index, renewal, S::nodes(exec), took);
            nodes += S::nodes(exec);
            time += took;
            // It is recorded before it is known whether it can be launched.
            if Some(at) == last {
                life.recorded(nodes, updated, time);
                self.validity = Some(life.validity());
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

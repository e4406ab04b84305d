//! The decode graph: one for the whole process, recorded when it has become invalid, replayed otherwise.
//!
//! It knows a step as a list of operations that can be run, recorded and replayed; not what they compute. A step has one
//! of a few numbers of rows, and each of those executable graphs of its own, which are recorded when it first comes: all
//! are of one life cycle, and what makes the graph invalid makes all of them. A step that may be left for another is cut into
//! parts, which are launched one after another.
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
    /// There is one for each number of rows that a step has had, whole and cut.
    sizes: Vec<Size<E>>,
    /// Whether a step of so many rows has places where it may be left.
    divisible: Vec<(usize, bool)>,
    /// Whether each replay is checked against what was recorded.
    verify: bool,
}

/// What steps of one number of rows replay.
#[derive(Debug)]
struct Size<E> {
    rows: usize,
    /// Whether it can be left between its parts: each of them costs a few microseconds.
    is_cut: bool,
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
    fn of(rows: usize, is_cut: bool) -> Self {
        Self {
            rows,
            is_cut,
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
            divisible: Vec::new(),
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
        self.begin(step, false).map(|(ran, _)| ran)
    }

    /// The same, but of a step that is `cut` only the first part, where it is replayed: the operations that are left are for `go_on`.
    ///
    /// # Errors
    /// As `step`.
    pub fn begin<S: Stepper<Exec = E>>(
        &mut self,
        step: &mut S,
        cut: bool,
    ) -> Result<(Ran, Range<usize>), S::Error> {
        let end = step.operations();
        let whole = |ran| (ran, end..end);
        if !self.life.serves() {
            return self.step_eagerly(step).map(whole);
        }
        let is_cut = cut && self.life.mode() != Mode::Piecewise && self.is_divisible(step);
        let at = self.size(step.rows(), is_cut);
        self.check(at, step);
        let size = &mut self.sizes[at];
        let replayed = if size.validity == Some(self.life.validity()) {
            size.replay(step)
        } else {
            if self.life.state() == State::Valid || self.life.is_unverified() {
                self.life.grows();
            }
            size.record(&mut self.life, step).map(|()| end)
        };
        match replayed {
            Ok(next) => {
                self.life.launched();
                Ok((Ran::Replayed, next..end))
            }
            Err(error) if S::is_refusal(&error) => {
                self.life.refused(S::refused(&error));
                // What was refused may have been done: then the token is on its way.
                if step.settle()? {
                    self.life.launched();
                    return Ok(whole(Ran::Replayed));
                }
                self.step_eagerly(step).map(whole)
            }
            Err(error) => {
                self.life.abandoned();
                Err(error)
            }
        }
    }

    /// Goes on with a step that has begun, by another part, whatever has happened to the graph meanwhile. Returns the operations
    /// that are left.
    ///
    /// # Errors
    /// As `step`.
    pub fn go_on<S: Stepper<Exec = E>>(
        &mut self,
        step: &mut S,
        left: Range<usize>,
    ) -> Result<Range<usize>, S::Error> {
        let (rows, layout, none) = (step.rows(), step.layout(), left.end..left.end);
        let mut sizes = self.sizes.iter_mut();
        let is_it = |size: &&mut Size<E>| (size.rows, size.layout) == (rows, layout);
        let size = sizes.find(|size| size.is_cut && is_it(size));
        let Some((next, exec)) = size.and_then(|size| size.part_from(left.start)) else {
            step.eager(left)?;
            return Ok(none);
        };
        match step.launch(exec) {
            Ok(()) => Ok(next..left.end),
            Err(error) if S::is_refusal(&error) => {
                self.life.refused(S::refused(&error));
                if !step.settle()? {
                    // From its beginning: nobody knows how far it has come.
                    self.step_eagerly(step)?;
                }
                Ok(none)
            }
            Err(error) => Err(error),
        }
    }

    /// Runs one step operation by operation; what is recorded stays as it is.
    pub fn step_eagerly<S: Stepper<Exec = E>>(&mut self, step: &mut S) -> Result<Ran, S::Error> {
        step.eager(0..step.operations())?;
        self.life.ran_eagerly();
        Ok(Ran::Eagerly)
    }

    fn is_divisible<S: Stepper<Exec = E>>(&mut self, step: &S) -> bool {
        let rows = step.rows();
        let known = self.divisible.iter().find(|(of, _)| *of == rows).copied();
        let (_, is_divisible) = known.unwrap_or_else(|| {
            let new = (rows, !step.cuts().is_empty());
            self.divisible.push(new);
            new
        });
        is_divisible
    }

    /// The place of what steps of so many rows replay, whole or cut.
    fn size(&mut self, rows: usize, is_cut: bool) -> usize {
        let is_it = |size: &Size<E>| (size.rows, size.is_cut) == (rows, is_cut);
        let known = self.sizes.iter().position(is_it);
        known.unwrap_or_else(|| {
            self.sizes.push(Size::of(rows, is_cut));
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
    /// Replays the first part, if it is cut, or all. Returns the operation after that.
    fn replay<S: Stepper<Exec = E>>(&mut self, step: &mut S) -> Result<usize, S::Error> {
        let parts = if self.is_cut { 1 } else { usize::MAX };
        let (mut execs, mut next) = (self.execs.iter_mut(), 0);
        for part in self.parts.iter().take(parts) {
            let (Part::Recorded(range) | Part::Eager(range)) = part;
            match part.is_recorded().then(|| execs.next()).flatten() {
                Some(exec) => step.launch(exec)?,
                None => step.eager(range.clone())?,
            }
            next = range.end;
        }
        Ok(next)
    }

    /// What replays the part that begins with an operation, and the operation after it.
    fn part_from(&mut self, first: usize) -> Option<(usize, &mut E)> {
        let ranges = self.parts.iter().filter_map(|part| match part {
            Part::Recorded(range) => Some(range),
            Part::Eager(_) => None,
        });
        let mut recorded = ranges.zip(&mut self.execs);
        let (range, exec) = recorded.find(|(range, _)| range.start == first)?;
        Some((range.end, exec))
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
        self.parts = parts(life.mode(), self.is_cut, step);
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

/// The parts of a step: the whole of it, which may be cut, or what lies between breaks.
fn parts<S: Stepper>(mode: Mode, is_cut: bool, step: &S) -> Vec<Part> {
    let all = 0..step.operations();
    let mut parts = Vec::new();
    let mut from = 0;
    if mode != Mode::Piecewise {
        let cuts = if is_cut { step.cuts() } else { Vec::new() };
        for cut in cuts.into_iter().chain([all.end]) {
            parts.push(Part::Recorded(from..cut));
            from = cut;
        }
        return parts;
    }
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

//! The decode graph: a step is replayed when the graph is valid, and recorded when it is invalid. After a change of the
//! cache, such as a rewind, the next step compares all addresses, and then replays or records.
//!
//! A step is a list of operations that can be run, recorded and replayed. A step has one of a few numbers of rows, and each
//! number has its own executable graphs, recorded on first use. All of them share one life cycle and become invalid together.
//! A step that can be preempted is cut into parts, which are launched one by one.
//!
//! If the driver refuses a call, the step runs eagerly: no token is lost or repeated.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::event::{InvalidationReason, Renewal, State};
use super::life::LifeCycle;
use super::mode::Mode;
use super::stepper::Stepper;
use super::trace::Trace;

/// How a step came to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    Eagerly,
    Replayed,
}

/// The executable graphs of steps, and their life cycle.
#[derive(Debug)]
pub struct DecodeGraph<E> {
    life: LifeCycle,
    /// The graphs for each number of rows that a step has had, whole and cut.
    sizes: Vec<Size<E>>,
    /// For each number of rows, whether a step has points where it can be preempted.
    divisible: Vec<(usize, bool)>,
    /// Whether each replay is checked against the recorded addresses.
    verify: bool,
}

/// The executable graphs of steps with one number of rows.
#[derive(Debug)]
struct Size<E> {
    rows: usize,
    /// Whether these are passes of a head.
    guesses: bool,
    /// Whether the step is cut into parts for preemption. Each part adds a few microseconds.
    is_cut: bool,
    /// The life cycle's validity at the recording. The graphs are valid while it is equal.
    validity: Option<u64>,
    /// The cache's epoch at the last recording or verification.
    epoch: u64,
    /// The recorded parts of the step, and the eager parts between them.
    parts: Vec<Part>,
    /// One executable graph for each recorded part. Invalid ones are kept, so that the driver can update them.
    execs: Vec<E>,
    /// The layout and the trace at the recording.
    layout: u64,
    trace: Trace,
}

impl<E> Size<E> {
    fn of((rows, guesses): (usize, bool), is_cut: bool) -> Self {
        Self {
            rows,
            guesses,
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

    /// The executable graphs of all sizes and segments; none before the first recording.
    pub fn execs(&self) -> impl Iterator<Item = &E> {
        self.sizes.iter().flat_map(|size| &size.execs)
    }

    /// Drops all recordings. The next step records again, even if failures had disabled recording.
    pub fn reset(&mut self) {
        let mode = self.life.mode();
        self.sizes.clear();
        self.life.reset(mode, InvalidationReason::Reset);
    }

    /// Drops all recordings and sets the mode of the next ones.
    pub fn set_mode(&mut self, mode: Mode) {
        self.sizes.clear();
        self.life.reset(mode, InvalidationReason::Mode);
    }

    /// Continues the graph of an executor whose memory is released, in this one, which has run no step. Every recording takes
    /// new addresses before its next replay; the executable graphs stay.
    pub fn resume(&mut self, before: Self) {
        let Self {
            life, mut sizes, ..
        } = before;
        for size in &mut sizes {
            size.validity = None;
        }
        (self.life, self.sizes) = (life, sizes);
    }

    /// Replays one step, after recording it if the graph is invalid. Runs it eagerly if the driver refuses.
    ///
    /// # Errors
    /// If the step itself or the device fails. A refused recording or replay is not an error.
    pub fn step<S: Stepper<Exec = E>>(&mut self, step: &mut S) -> Result<Ran, S::Error> {
        self.begin(step, false).map(|(ran, _)| ran)
    }

    /// Runs one step, or with `cut` only its first part if it is replayed. Returns the remaining operations for `run_part`.
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
        let at = self.size((step.rows(), step.guesses()), is_cut);
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
                // The refused call may have run the step all the same.
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

    /// Runs the next part of a step that `begin` has started, even if the graph is invalid meanwhile. Returns the remaining
    /// operations.
    ///
    /// # Errors
    /// As `step`.
    pub fn run_part<S: Stepper<Exec = E>>(
        &mut self,
        step: &mut S,
        rest: Range<usize>,
    ) -> Result<Range<usize>, S::Error> {
        let (rows, layout, none) = (step.rows(), step.layout(), rest.end..rest.end);
        let mut sizes = self.sizes.iter_mut();
        let is_it = |size: &&mut Size<E>| (size.rows, size.layout) == (rows, layout);
        let size = sizes.find(|size| size.is_cut && is_it(size));
        let Some((next, exec)) = size.and_then(|size| size.part_from(rest.start)) else {
            step.eager(rest)?;
            return Ok(none);
        };
        match step.launch(exec) {
            Ok(()) => Ok(next..rest.end),
            Err(error) if S::is_refusal(&error) => {
                self.life.refused(S::refused(&error));
                if !step.settle()? {
                    // The failed part's progress is unknown, so the step restarts.
                    self.step_eagerly(step)?;
                }
                Ok(none)
            }
            Err(error) => Err(error),
        }
    }

    /// Runs one step operation by operation. Recordings stay valid.
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

    /// The index of the graphs for a number of rows of the model or of its head, whole or cut.
    fn size(&mut self, of: (usize, bool), is_cut: bool) -> usize {
        let is_it = |size: &Size<E>| ((size.rows, size.guesses), size.is_cut) == (of, is_cut);
        let known = self.sizes.iter().position(is_it);
        known.unwrap_or_else(|| {
            self.sizes.push(Size::of(of, is_cut));
            self.sizes.len() - 1
        })
    }

    /// Invalidates the graphs if an address or a geometry differs from the recording, and otherwise makes them valid again.
    ///
    /// All addresses are compared after a change of the cache, and for each replay with `verify`.
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
    /// Replays the first part of a cut step, or the whole step. Returns the next operation.
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

    /// The end and the executable graph of the part that begins with an operation.
    fn part_from(&mut self, first: usize) -> Option<(usize, &mut E)> {
        let ranges = self.parts.iter().filter_map(|part| match part {
            Part::Recorded(range) => Some(range),
            Part::Eager(_) => None,
        });
        let mut recorded = ranges.zip(&mut self.execs);
        let (range, exec) = recorded.find(|(range, _)| range.start == first)?;
        Some((range.end, exec))
    }

    /// Records each part and launches it at once, so that the recorded step also yields its token. Existing executable graphs
    /// are updated if the driver can.
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
            // The launch of a recorded part can still fail.
            if Some(at) == last {
                life.recorded(nodes, updated, time);
                self.validity = Some(life.validity());
            }
            step.launch(exec)?;
            index += 1;
        }
        // The device is busy, so the trace costs no time.
        self.trace = step.trace();
        Ok(())
    }
}

impl Part {
    const fn is_recorded(&self) -> bool {
        matches!(self, Self::Recorded(_))
    }
}

/// Splits a step at its cuts, or in piecewise mode at its breaks.
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

//! A second implementation of the life cycle of section 5 of the design, with the calls of each transition. The refused
//! call decides the next state.

use ganglion::fault::{Call, Fault, How};
use ganglion::graph::{Counters, InvalidationReason, LifeCycle, Mode, State};
use ganglion::kv::Change;
use ganglion::tape::Ending;
use ganglion::trial::refusals::same;

use super::SIZES;

/// The outcome of a step or a chunk of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Ran,
    /// Not even the eager run succeeded; the next turn can run.
    Failed,
    /// The device is lost.
    Lost,
}

/// The reason of a failed call.
enum No {
    /// `token`: the step ran despite the error.
    Refused {
        token: bool,
    },
    Lost,
}

/// A part of a step.
#[derive(Clone, Copy)]
enum Part {
    /// Has that many operations, some of which use the cache.
    Segment {
        operations: usize,
        cached: usize,
    },
    Eager,
}

#[derive(Debug)]
pub(super) struct Model {
    /// The counts of the neural network's layers.
    layers: usize,
    mode: Mode,
    state: State,
    reason: InvalidationReason,
    epoch: u64,
    nodes: usize,
    /// Failures since the last token of a replay.
    in_a_row: u32,
    counters: Counters,
    warm: bool,
    /// The change of the cache that the recordings have not been checked against.
    unverified: Option<Change>,
    /// Updatable executable graphs, each with the slot of its template; `None` if that is unknown.
    living: Vec<Option<usize>>,
    /// The slot whose addresses were recorded.
    entry: usize,
    /// Recorded prompts by rows, ending and slot, the most recently used last.
    prompts: Vec<(usize, Ending, usize)>,
    most_prompts: usize,
    fault: Option<Fault>,
    /// The failed calls.
    pub(super) struck: Vec<(Call, How)>,
}

impl Model {
    pub(super) fn new(mode: Mode, layers: usize, most_prompts: usize) -> Self {
        let mut model = Self {
            layers,
            mode,
            state: State::Invalid,
            reason: InvalidationReason::Start,
            epoch: 0,
            nodes: 0,
            in_a_row: 0,
            counters: Counters::default(),
            warm: false,
            unverified: None,
            living: Vec::new(),
            entry: 0,
            prompts: Vec::new(),
            most_prompts,
            fault: None,
            struck: Vec::new(),
        };
        if mode == Mode::None {
            model.to(State::Disabled, InvalidationReason::Mode);
        }
        model
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    pub(super) fn arm(&mut self, fault: Fault) {
        self.fault = Some(fault);
    }

    pub(super) fn reset(&mut self) {
        self.start_again(self.mode, InvalidationReason::Reset);
    }

    pub(super) fn set_mode(&mut self, mode: Mode) {
        self.start_again(mode, InvalidationReason::Mode);
    }

    /// Replaces the executor by one without recordings and failures; counters stay.
    pub(super) fn reload(&mut self, mode: Mode, layers: usize, most_prompts: usize) {
        (self.layers, self.most_prompts) = (layers, most_prompts);
        (self.warm, self.fault) = (false, None);
        self.start_again(mode, InvalidationReason::Start);
    }

    /// The cache has changed. Recordings are checked against the change before their next replay; recorded prompts do
    /// not depend on it.
    pub(super) fn change(&mut self, change: Change, epoch: u64) {
        self.epoch = epoch;
        let recorded = self.state == State::Valid || self.unverified.is_some();
        match self.state {
            State::Disabled => {}
            _ if recorded && change != Change::Resized => {
                self.to(State::Invalid, InvalidationReason::Kv(change));
                self.unverified = Some(change);
            }
            _ => self.to(State::Invalid, InvalidationReason::Kv(change)),
        }
    }

    /// One step in a slot.
    pub(super) fn step(&mut self, entry: usize) -> Outcome {
        if !self.warm || self.state == State::Disabled {
            return self.eager_step();
        }
        // The addresses of another slot, the only reason for an invalid recording here.
        let recorded = self.state == State::Valid || self.unverified.is_some();
        if recorded && self.entry != entry {
            self.to(State::Invalid, InvalidationReason::Moved(None));
        }
        self.entry = entry;
        if self.unverified.take().is_some() {
            self.counters.verified += 1;
            self.state = State::Valid;
        }
        let tried = if self.state == State::Valid {
            self.replay()
        } else {
            self.record()
        };
        let token = match tried {
            Err(No::Lost) => return Outcome::Lost,
            Ok(()) => true,
            Err(No::Refused { token }) => {
                self.failed(Some(InvalidationReason::Refused));
                token
            }
        };
        if !token {
            return self.eager_step();
        }
        self.counters.launches += 1;
        self.in_a_row = 0;
        Outcome::Ran
    }

    /// A chunk of a prompt in a slot.
    pub(super) fn prompt(&mut self, rows: usize, ending: Ending, entry: usize) -> Outcome {
        let operations = self.operations(ending);
        let size = SIZES.into_iter().find(|size| *size >= rows);
        let (Mode::Full, Some(size)) = (self.mode, size) else {
            return self.eager(operations);
        };
        if self.state == State::Disabled {
            return self.eager(operations);
        }
        let prompt = (size, ending, entry);
        let held = self.prompts.iter().position(|held| *held == prompt);
        held.map(|at| self.prompts.remove(at));
        let recorded = match held {
            Some(_) => Ok(()),
            None => self.capture(operations).and_then(|()| self.instantiate()),
        };
        match recorded.and_then(|()| self.launch(ending == Ending::Token)) {
            Ok(()) => {
                self.prompts.push(prompt);
                let over = self.prompts.len().saturating_sub(self.most_prompts);
                self.prompts.drain(..over);
                Outcome::Ran
            }
            Err(No::Lost) => Outcome::Lost,
            Err(No::Refused { token }) => {
                // The decode graph itself stays valid.
                self.failed(None);
                if token {
                    Outcome::Ran
                } else {
                    self.eager(operations)
                }
            }
        }
    }

    /// Compares the public state with the expected one.
    pub(super) fn check(&self, life: &LifeCycle) -> Result<(), String> {
        same("mode", life.mode(), self.mode)?;
        same("state", life.state(), self.state)?;
        let moved = matches!(life.reason(), InvalidationReason::Moved(Some(what)) if what.starts_with("kv moved"));
        same(
            "what moved is said",
            moved,
            self.reason == InvalidationReason::Moved(None),
        )?;
        if !moved {
            same("reason", life.reason(), &self.reason)?;
        }
        same("epoch", life.epoch(), self.epoch)?;
        same("nodes", life.nodes(), self.nodes)?;
        same("failures in a row", life.failures(), self.in_a_row)?;
        same("counters", life.counters(), self.counters)?;
        let failed = self.counters.failures > 0;
        same("a last error", life.last_error().is_some(), failed)
    }

    fn start_again(&mut self, mode: Mode, reason: InvalidationReason) {
        self.mode = mode;
        self.living.clear();
        (self.nodes, self.in_a_row) = (0, 0);
        self.prompts.clear();
        if mode == Mode::None {
            self.to(State::Disabled, InvalidationReason::Mode);
        } else {
            self.to(State::Invalid, reason);
        }
    }

    fn to(&mut self, state: State, reason: InvalidationReason) {
        (self.state, self.reason) = (state, reason);
        self.unverified = None;
    }

    /// With a reason the decode graph itself has failed.
    fn failed(&mut self, reason: Option<InvalidationReason>) {
        self.in_a_row += 1;
        self.counters.failures += 1;
        if self.in_a_row == 3 {
            self.to(State::Disabled, InvalidationReason::Refused);
        } else if let Some(reason) = reason {
            self.to(State::Invalid, reason);
        }
    }

    fn eager_step(&mut self) -> Outcome {
        let outcome = self.eager(self.operations(Ending::Token));
        if outcome == Outcome::Ran {
            self.counters.eager_steps += 1;
            self.warm = true;
        }
        outcome
    }

    fn eager(&mut self, operations: usize) -> Outcome {
        for _ in 0..operations {
            match self.call(Call::Launch, false) {
                Ok(()) => {}
                Err(No::Refused { .. }) => return Outcome::Failed,
                Err(No::Lost) => return Outcome::Lost,
            }
        }
        Outcome::Ran
    }

    fn replay(&mut self) -> Result<(), No> {
        let parts = self.parts();
        for (at, part) in parts.iter().enumerate() {
            match part {
                Part::Segment { .. } => self.launch(at + 1 == parts.len())?,
                Part::Eager => self.call(Call::Launch, false)?,
            }
        }
        Ok(())
    }

    /// Each segment is launched before the operations that follow it. Once all are recorded, the graph is valid.
    fn record(&mut self) -> Result<(), No> {
        let (parts, mut index) = (self.parts(), 0);
        for (at, part) in parts.iter().enumerate() {
            let Part::Segment { operations, cached } = *part else {
                self.call(Call::Launch, false)?;
                continue;
            };
            if index < self.living.len() {
                self.rewrite(index, operations, cached)?;
                self.update()?;
            } else {
                self.capture(operations)?;
                self.instantiate()?;
                self.counters.instantiations += 1;
                self.living.push(Some(self.entry));
            }
            index += 1;
            let last = at + 1 == parts.len();
            if last {
                self.state = State::Valid;
                self.counters.recordings += 1;
                self.nodes = parts.iter().map(Part::nodes).sum();
            }
            self.launch(last)?;
        }
        Ok(())
    }

    fn capture(&mut self, operations: usize) -> Result<(), No> {
        self.call(Call::BeginCapture, false)?;
        for _ in 0..operations {
            self.call(Call::Launch, true)?;
        }
        self.call(Call::EndCapture, true)
    }

    fn instantiate(&mut self) -> Result<(), No> {
        self.call(Call::Instantiate, false)?;
        self.call(Call::Upload, false)
    }

    /// Sets the launches that differ. If that is refused, which is not a failure, it records all of them.
    fn rewrite(&mut self, index: usize, operations: usize, cached: usize) -> Result<(), No> {
        let differ = match self.living[index].take() {
            Some(entry) if entry == self.entry => 0,
            Some(_) => cached,
            None => operations,
        };
        for _ in 0..differ {
            match self.call(Call::SetKernel, false) {
                Ok(()) => {}
                Err(No::Refused { .. }) => {
                    self.capture(operations)?;
                    break;
                }
                Err(No::Lost) => return Err(No::Lost),
            }
        }
        self.living[index] = Some(self.entry);
        Ok(())
    }

    /// A refused update is not a failure: the executable graph is made again.
    fn update(&mut self) -> Result<(), No> {
        match self.call(Call::Update, false) {
            Ok(()) => {
                self.call(Call::Upload, false)?;
                self.counters.updates += 1;
            }
            Err(No::Refused { .. }) => {
                self.instantiate()?;
                self.counters.instantiations += 1;
            }
            Err(No::Lost) => return Err(No::Lost),
        }
        Ok(())
    }

    /// The token is chosen in the last segment.
    fn launch(&mut self, last: bool) -> Result<(), No> {
        match self.call(Call::GraphLaunch, false) {
            Err(No::Refused { token }) => Err(No::Refused {
                token: token && last,
            }),
            answered => answered,
        }
    }

    fn call(&mut self, call: Call, capturing: bool) -> Result<(), No> {
        let Some(fault) = self.fault.as_mut().filter(|fault| fault.call == call) else {
            return Ok(());
        };
        if fault.skip > 0 {
            fault.skip -= 1;
            return Ok(());
        }
        let how = fault.how;
        self.fault = None;
        self.struck.push((call, how));
        match how {
            How::Before => Err(No::Refused { token: false }),
            // Only this call runs a recording.
            How::After => Err(No::Refused {
                token: call == Call::GraphLaunch,
            }),
            How::Synchronize if capturing => Err(No::Refused { token: false }),
            How::Synchronize => Ok(()),
            How::Lost => Err(No::Lost),
        }
    }

    /// An embedding, six operations per layer, the head and the choice.
    fn operations(&self, ending: Ending) -> usize {
        let ends = match ending {
            Ending::Kv => 0,
            Ending::Logits => 1,
            Ending::Token => 2,
        };
        1 + 6 * self.layers + ends
    }

    /// The parts of a step: all of it, or the operations between two attentions, which are the third of the six. The
    /// third uses the cache, and so does the second.
    fn parts(&self) -> Vec<Part> {
        let segment = |operations, cached| Part::Segment { operations, cached };
        if self.mode != Mode::Piecewise {
            return vec![segment(self.operations(Ending::Token), 2 * self.layers)];
        }
        let mut parts = vec![segment(3, 1)];
        for layer in 1..=self.layers {
            let last = layer == self.layers;
            parts.extend([Part::Eager, segment(5, usize::from(!last))]);
        }
        parts
    }
}

impl Part {
    fn nodes(&self) -> usize {
        match self {
            Self::Segment { operations, .. } => *operations,
            Self::Eager => 0,
        }
    }
}

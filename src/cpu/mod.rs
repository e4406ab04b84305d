//! The CPU executor: loops over quantized rows. Sums of integers are exact, and all others are f32.
//!
//! It also records and replays steps, and can launch them ahead. A CPU is not faster that way, but the life cycle of the
//! decode graph can be tested without a GPU. It reads no files and knows no model.

mod activation;
mod ahead;
mod attention;
mod cache;
mod core;
mod dots;
mod encode;
mod executor;
mod exp;
mod groups;
mod hidden;
mod images;
mod inspect;
mod int16;
mod launched;
mod load;
mod matmul;
mod memory_estimate;
mod norm;
mod page_access;
mod precision;
mod prefetch;
mod prepare;
mod probe;
mod recurrent;
mod rope;
mod rows;
mod sample;
mod softmax;
mod state_access;
mod step;
mod threads;
mod timestamps;
mod vision;
mod weight;

use std::ops::Range;
use std::time::Instant;

use self::core::Core;
use self::launched::Ahead;
pub use self::load::load;
pub use self::memory_estimate::memory_estimate;
pub use self::precision::Precision;
use self::step::{CpuStep, Living};
pub use self::threads::Threads;
pub use self::weight::{Matrix, Weight};
use crate::executor::{
    Base, ExecuteError, Given, Pass, PreemptPrompt, PreemptStep, PromptRows, STEP_PLACE, StateError,
};
use crate::fault::Faults;
use crate::graph::{Buckets, DecodeGraph, GraphOptions, Key, Ran, Stepper as _};
use crate::tape::{Angles, Ending, KvInfo, Tape};

/// A model's weights, cache and activations in host memory, and the graph of its step.
#[derive(Debug)]
pub struct Cpu {
    core: Core,
    base: Base<Living>,
    preempted_step: Option<PreemptedStep>,
    /// The bytes that a step moves between two points where it can be preempted.
    part_bytes: u64,
    kv: KvInfo,
    faults: Faults,
    /// The page whose copy is in flight.
    sent: Option<Vec<u8>>,
    /// Whether steps are launched ahead, as on a GPU.
    launches_ahead: bool,
    ahead: Option<Ahead>,
    /// The logits of the last taken step, while another step is ahead.
    previous_logits: Option<Vec<f32>>,
}

/// A step that was preempted between two of its parts.
#[derive(Debug)]
struct PreemptedStep {
    slots: Vec<usize>,
    ran: Ran,
    /// The operations that have not run.
    rest: Range<usize>,
}

impl Cpu {
    pub fn new(
        weights: Vec<Weight>,
        angles: Vec<Angles>,
        kv: KvInfo,
        threads: usize,
        graph: &GraphOptions,
    ) -> Result<Self, rayon::ThreadPoolBuildError> {
        let threads = Threads::new(threads)?;
        Ok(Self::on(threads, weights, angles, kv, graph))
    }

    /// Makes an executor on the threads of another one. Both must be used by one thread, one after the other.
    #[must_use]
    pub fn on(
        threads: Threads,
        weights: Vec<Weight>,
        angles: Vec<Angles>,
        kv: KvInfo,
        graph: &GraphOptions,
    ) -> Self {
        Self {
            core: Core::new(weights, angles, kv, threads),
            base: Base::new(graph),
            preempted_step: None,
            part_bytes: graph.part_bytes,
            kv,
            faults: Faults::default(),
            sent: None,
            launches_ahead: false,
            ahead: None,
            previous_logits: None,
        }
    }

    /// Returns its threads, for another executor.
    #[must_use]
    pub fn threads(&self) -> Threads {
        self.core.threads().clone()
    }

    /// Sets the precision of activations; it is that of f32 without this call.
    #[must_use]
    pub fn with_precision(mut self, precision: Precision) -> Self {
        self.core.precision = precision;
        self
    }

    /// Replaces the cache and all other memory except the weights. Recordings are dropped.
    pub fn replace_cache(&mut self, kv: KvInfo, graph: &GraphOptions) {
        self.core.replace_cache(kv);
        self.base.renew(graph);
        (self.preempted_step, self.sent) = (None, None);
        (self.ahead, self.previous_logits) = (None, None);
        self.kv = kv;
    }

    /// Replays the pending updates of a slot's recurrent state up to a position.
    ///
    /// # Errors
    /// If the slot has no state, or it has passed the position, or lacks updates before it.
    pub fn commit_state(&mut self, slot: usize, position: usize) -> Result<(), StateError> {
        let states = self.core.states.as_mut();
        states.map_or(Ok(()), |states| states.commit(slot, position))
    }

    /// Appends a checkpoint of a slot's recurrent state at a position: `StateInfo::checkpoint_bytes`. Nothing is
    /// appended without recurrent layers.
    ///
    /// # Errors
    /// As `commit_state`, which runs first.
    pub fn read_state(
        &mut self,
        slot: usize,
        position: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), StateError> {
        let states = self.core.states.as_mut();
        states.map_or(Ok(()), |states| states.read(slot, position, out))
    }

    /// Replaces a slot's recurrent state by a checkpoint of `read_state`, and discards its prompt. Returns its position,
    /// or `None` without recurrent layers.
    ///
    /// # Errors
    /// If the slot has no state, or the checkpoint has another length.
    pub fn write_state(&mut self, slot: usize, bytes: &[u8]) -> Result<Option<usize>, StateError> {
        let states = self.core.states.as_mut();
        states.map(|states| states.write(slot, bytes)).transpose()
    }

    /// Discards the recurrent state that a slot's prompt has written so far.
    pub fn discard_state(&mut self, slot: usize) {
        if let Some(states) = &mut self.core.states {
            states.places_mut().discard(slot);
        }
    }

    fn key(&self, tape: &Tape) -> Key {
        Key {
            rows: tape.rows,
            token: tape.ending == Ending::Token,
            slot: self.core.slot,
            moves: self.base.moves,
        }
    }

    /// Checks that a slot has a state and pages for `tokens` more positions, and the tape as many rows.
    fn fits(&self, slot: usize, tokens: usize, rows: usize) -> Result<(), ExecuteError> {
        if let Some(states) = &self.core.states {
            states.places().own(slot)?;
        }
        let position = self.core.conversations[slot].state.position;
        let context = self.core.cache.capacity(slot);
        if (1..=rows).contains(&tokens) && position + tokens <= context {
            return Ok(());
        }
        Err(ExecuteError::Context {
            rows: tokens,
            position,
            context,
        })
    }

    /// Runs the layers of a prompt, from where it was preempted if it was.
    fn eager_until(
        &mut self,
        tape: &Tape,
        tokens: &[u32],
        mut preempts: PreemptPrompt<'_>,
    ) -> Result<Pass, ExecuteError> {
        let slot = self.core.slot;
        let rows = PromptRows {
            slot,
            position: self.core.conversations[slot].state.position,
            tokens: tokens.to_vec(),
            ending: tape.ending,
        };
        let (all, mut next) = (tape.ops.len(), 0);
        if let Some((place, saved)) = self.base.preempted.take(&rows) {
            self.core.restore_carried(tape, place);
            next = saved;
        }
        let pauses = tape.pauses();
        let pauses = pauses.filter(|pause| (next + 1..all).contains(pause));
        for pause in pauses.collect::<Vec<_>>() {
            self.split(tape).0.eager(next..pause)?;
            next = pause;
            if let Some(place) = self.base.preempted.place()
                && preempts.as_mut().is_some_and(|preempts| preempts())
            {
                self.core.save_carried(tape, place);
                self.base.preempted.keep(place, rows, next);
                return Ok(Pass::Preempted);
            }
        }
        self.split(tape).0.eager(next..all)?;
        Ok(Pass::Ended)
    }

    /// Runs a step, or the rest of it if it was preempted.
    fn run_rows(
        &mut self,
        tape: &Tape,
        slots: &[usize],
        given: &[Given],
        mut preempts: PreemptStep<'_>,
    ) -> Result<Pass, ExecuteError> {
        if let [slot] = slots {
            self.core.slot = *slot;
        }
        self.core.rows.clear();
        self.core.rows.extend_from_slice(slots);
        self.core.given.clear();
        self.core.given.extend_from_slice(given);
        let same = |step: &PreemptedStep| given.is_empty() && step.slots == slots;
        let before = self.preempted_step.take().filter(same);
        if before.is_some() {
            self.core.restore_carried(tape, STEP_PLACE);
        }
        let (mut step, graph, _) = self.split(tape);
        let is_cut = preempts.is_some() && given.is_empty();
        let (ran, mut rest) = match before {
            Some(PreemptedStep { ran, rest, .. }) => (ran, graph.run_part(&mut step, rest)?),
            None => graph.begin(&mut step, is_cut)?,
        };
        while !rest.is_empty() {
            if preempts
                .as_mut()
                .is_some_and(|preempts| preempts(Instant::now()))
            {
                self.core.save_carried(tape, STEP_PLACE);
                let slots = slots.to_vec();
                self.preempted_step = Some(PreemptedStep { slots, ran, rest });
                return Ok(Pass::Preempted);
            }
            rest = graph.run_part(&mut step, rest)?;
        }
        if ran == Ran::Replayed {
            graph.life_mut().completed();
        }
        Ok(Pass::Ended)
    }

    /// Returns a tape that is ready to run, and the graphs that can replay it.
    fn split<'a>(
        &'a mut self,
        tape: &'a Tape,
    ) -> (
        CpuStep<'a>,
        &'a mut DecodeGraph<Living>,
        &'a mut Buckets<Living>,
    ) {
        let step = CpuStep {
            layout: self.base.moves * self.kv.slots as u64 + step::slot(&self.core, tape) as u64,
            chosen: self.core.chosen,
            core: &mut self.core,
            tape,
            faults: &self.faults,
            part_bytes: self.part_bytes,
            capturing: false,
        };
        (step, &mut self.base.graph, &mut self.base.prompts)
    }
}

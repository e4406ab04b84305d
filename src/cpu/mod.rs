//! The CPU executor: the reference, plain loops over quantized rows with f32 accumulation.
//!
//! It also records and replays its steps, by which it gains nothing but the life cycle of the decode graph.

mod ahead;
mod attention;
mod cache;
mod core;
mod dots;
mod exp;
mod groups;
mod inspect;
mod load;
mod matmul;
mod memory_estimate;
mod norm;
mod prefetch;
mod rope;
mod softmax;
mod step;
mod threads;
mod timestamps;
mod weight;

use std::ops::Range;
use std::time::Instant;

use self::ahead::{Ahead, is_refused};
use self::core::{Core, Guide};
pub use self::load::load;
pub use self::memory_estimate::memory_estimate;
use self::step::{CpuStep, Living};
use self::timestamps::Timestamps;
pub use self::weight::{Matrix, Weight};
use crate::executor::{Behind, Executor, Leaves, Pass, Preempted, Preempts, Rows, STEP_PLACE};
use crate::fault::Faults;
use crate::graph::{Buckets, Counts, DecodeGraph, Key, LifeCycle, Mode, Ran, Stepper};
use crate::sampler::{Mask, Parameters, Promise, Scored};
use crate::tape::{
    Angles, Ending, ExecuteError, GraphOptions, KvInfo, Span, StepState, StepTimes, Tape, Timed,
};

/// A model's weights, cache and activations in host memory, and the graph of its step.
#[derive(Debug)]
pub struct Cpu {
    core: Core,
    graph: DecodeGraph<Living>,
    prompts: Buckets<Living>,
    /// Prompts that were left between two half layers.
    preempted: Preempted,
    /// The step that was left.
    left_step: Option<LeftStep>,
    /// A step may be left where it has moved so many bytes.
    part_bytes: u64,
    kv: KvInfo,
    /// How often the memory of a buffer has moved.
    moves: u64,
    faults: Faults,
    times: StepTimes,
    /// A page that was sent and not taken.
    sent: Option<Vec<u8>>,
    /// Whether steps are launched ahead, as a GPU's are.
    launches_ahead: bool,
    ahead: Option<Ahead>,
    /// The logits of the step before it.
    left: Option<Vec<f32>>,
}

/// A step that was left between two of its parts: how it ran so far, and its operations that have not.
#[derive(Debug)]
struct LeftStep {
    entries: Vec<usize>,
    ran: Ran,
    left: Range<usize>,
}

impl Cpu {
    pub fn new(
        weights: Vec<Weight>,
        angles: Vec<Angles>,
        kv: KvInfo,
        threads: usize,
        graph: &GraphOptions,
    ) -> Result<Self, rayon::ThreadPoolBuildError> {
        Ok(Self {
            core: Core::new(weights, angles, kv, threads)?,
            graph: DecodeGraph::new(graph.mode, graph.verify_addresses),
            prompts: Buckets::new(graph.capture_sizes.clone(), graph.budget),
            preempted: Preempted::default(),
            left_step: None,
            part_bytes: graph.part_bytes,
            kv,
            moves: 0,
            faults: Faults::default(),
            times: StepTimes::default(),
            sent: None,
            launches_ahead: false,
            ahead: None,
            left: None,
        })
    }

    /// Replaces the cache and all other memory except the weights. Recordings are dropped.
    pub fn replace_cache(&mut self, kv: KvInfo, graph: &GraphOptions) {
        self.core.replace_cache(kv);
        self.graph = DecodeGraph::new(graph.mode, graph.verify_addresses);
        self.prompts = Buckets::new(graph.capture_sizes.clone(), graph.budget);
        self.preempted = Preempted::default();
        (self.left_step, self.sent) = (None, None);
        (self.ahead, self.left) = (None, None);
        self.moves += 1;
        self.kv = kv;
    }

    fn key(&self, tape: &Tape) -> Key {
        Key {
            rows: tape.rows,
            token: tape.ending == Ending::Token,
            entry: self.core.entry,
            moves: self.moves,
        }
    }

    fn fits(&self, entry: usize, tokens: usize, rows: usize) -> Result<(), ExecuteError> {
        let position = self.core.conversations[entry].state.position;
        let context = self.core.cache.capacity(entry);
        if (1..=rows).contains(&tokens) && position + tokens <= context {
            return Ok(());
        }
        Err(ExecuteError::Context {
            rows: tokens,
            position,
            context,
        })
    }

    /// Runs a prompt's layers from where it was left on, one after another.
    fn eager_until(
        &mut self,
        tape: &Tape,
        tokens: &[u32],
        mut preempts: Preempts<'_>,
    ) -> Result<Pass, ExecuteError> {
        let entry = self.core.entry;
        let rows = Rows {
            entry,
            position: self.core.conversations[entry].state.position,
            tokens: tokens.to_vec(),
            ending: tape.ending,
        };
        let (all, mut next) = (tape.ops.len(), 0);
        if let Some((place, left)) = self.preempted.take(&rows) {
            self.core.resume(tape, place);
            next = left;
        }
        let pauses = tape.pauses();
        let pauses = pauses.filter(|pause| (next + 1..all).contains(pause));
        for pause in pauses.collect::<Vec<_>>() {
            self.split(tape).0.eager(next..pause)?;
            next = pause;
            if let Some(place) = self.preempted.place()
                && preempts.as_mut().is_some_and(|preempts| preempts())
            {
                self.core.leave(tape, place);
                self.preempted.keep(place, rows, next);
                return Ok(Pass::Preempted);
            }
        }
        self.split(tape).0.eager(next..all)?;
        Ok(Pass::Ended)
    }

    /// Runs a step now, or what is left of it.
    fn run_rows(
        &mut self,
        tape: &Tape,
        entries: &[usize],
        forced: &[u32],
        mut leaves: Leaves<'_>,
    ) -> Result<Pass, ExecuteError> {
        if let [entry] = entries {
            self.core.entry = *entry;
        }
        self.core.rows.clear();
        self.core.rows.extend_from_slice(entries);
        self.core.forced.clear();
        self.core.forced.extend_from_slice(forced);
        let same = |step: &LeftStep| forced.is_empty() && step.entries == entries;
        let before = self.left_step.take().filter(same);
        if before.is_some() {
            self.core.resume(tape, STEP_PLACE);
        }
        let (mut step, graph, _) = self.split(tape);
        let may = leaves.is_some() && forced.is_empty();
        let (ran, mut left) = match before {
            Some(LeftStep { ran, left, .. }) => (ran, graph.go_on(&mut step, left)?),
            None => graph.begin(&mut step, may)?,
        };
        while !left.is_empty() {
            if leaves.as_mut().is_some_and(|leaves| leaves(Instant::now())) {
                self.core.leave(tape, STEP_PLACE);
                let entries = entries.to_vec();
                self.left_step = Some(LeftStep { entries, ran, left });
                return Ok(Pass::Preempted);
            }
            left = graph.go_on(&mut step, left)?;
        }
        if ran == Ran::Replayed {
            graph.life_mut().arrived();
        }
        Ok(Pass::Ended)
    }

    /// A tape, ready to run, beside the graphs that may do it.
    fn split<'a>(
        &'a mut self,
        tape: &'a Tape,
    ) -> (
        CpuStep<'a>,
        &'a mut DecodeGraph<Living>,
        &'a mut Buckets<Living>,
    ) {
        let step = CpuStep {
            layout: self.moves * self.kv.entries as u64 + step::entry(&self.core, tape) as u64,
            chosen: self.core.chosen,
            core: &mut self.core,
            tape,
            faults: &self.faults,
            part_bytes: self.part_bytes,
            capturing: false,
        };
        (step, &mut self.graph, &mut self.prompts)
    }
}

impl Executor for Cpu {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn prepare(&mut self, tape: &Tape) -> Result<(), ExecuteError> {
        let before: Vec<u64> = self.core.addresses().collect();
        self.core.prepare(tape);
        if !self.core.addresses().eq(before) {
            self.moves += 1;
            self.left_step = None;
        }
        Ok(())
    }

    fn activation_bytes(&self) -> u64 {
        self.core.activation_bytes() as u64
    }

    fn begin(
        &mut self,
        (entry, position): (usize, usize),
        parameters: Parameters,
        prompt: &[u32],
    ) -> Result<(), ExecuteError> {
        self.core.entry = entry;
        self.preempted.forget(entry);
        self.forget_ahead_of(entry);
        let conversation = &mut self.core.conversations[entry];
        conversation.state.position = position;
        conversation.sampler.begin(parameters, prompt);
        conversation.guide = Guide::Free;
        conversation.scored.clear();
        Ok(())
    }

    fn seat(&mut self, entry: usize, pages: &[usize]) -> Result<(), ExecuteError> {
        self.forget_ahead_of(entry);
        self.core.cache.seat(entry, pages);
        Ok(())
    }

    fn give_back(&mut self, chunks: &[usize]) -> Result<(), ExecuteError> {
        self.core.cache.give_back(chunks);
        Ok(())
    }

    fn allocate(&mut self, chunk: usize) -> Result<(), ExecuteError> {
        self.core.cache.allocate(chunk);
        Ok(())
    }

    fn copy_page(&mut self, from: usize, to: usize) -> Result<(), ExecuteError> {
        self.core.cache.copy_page(from, to);
        Ok(())
    }

    fn send_page(&mut self, page: usize, positions: usize) -> Result<bool, ExecuteError> {
        if self.sent.is_some() {
            return Ok(false);
        }
        let mut bytes = vec![0; self.kv.page_bytes()];
        self.core.cache.read_page(page, positions, &mut bytes);
        self.sent = Some(bytes);
        Ok(true)
    }

    fn take_sent(&mut self) -> Result<Option<Vec<u8>>, ExecuteError> {
        Ok(self.sent.take())
    }

    fn forget_sent(&mut self) {
        self.sent = None;
    }

    fn write_page(&mut self, page: usize, bytes: &[u8]) -> Result<bool, ExecuteError> {
        self.core.cache.write_page(page, bytes);
        Ok(true)
    }

    fn identity(&self) -> String {
        let (machine, simd) = (std::env::consts::ARCH, pulp::Arch::new());
        format!("cpu, {machine}, {simd:?}")
    }

    fn entry(&self) -> usize {
        self.core.entry
    }

    fn turn_to(&mut self, entry: usize) {
        self.core.entry = entry;
    }

    fn post(&mut self, token: u32) {
        self.forget_ahead_of(self.core.entry);
        let conversation = &mut self.core.conversations[self.core.entry];
        conversation.state.token = token;
        conversation.sampler.correct(token);
    }

    fn guide(&mut self, entry: usize, mask: Option<&Mask>) -> Result<(), ExecuteError> {
        self.bind(
            entry,
            mask.map_or(Guide::Free, |mask| Guide::Allows(mask.clone())),
        );
        Ok(())
    }

    /// It is made while all before the choice is computed.
    fn guide_later(&mut self, entry: usize, mask: Promise) -> Result<(), ExecuteError> {
        self.bind(entry, Guide::Later(mask));
        Ok(())
    }

    fn waits(&self, entry: usize) -> bool {
        self.core.conversations[entry].waits
    }

    fn scored(&self, entry: usize) -> &[Scored] {
        &self.core.conversations[entry].scored
    }

    fn state_of(&self, entry: usize) -> StepState {
        self.core.conversations[entry].state
    }

    fn forget(&mut self, entry: usize) {
        self.preempted.forget(entry);
    }

    fn run_until(
        &mut self,
        tape: &Tape,
        tokens: &[u32],
        preempts: Preempts<'_>,
    ) -> Result<Pass, ExecuteError> {
        (self.ahead, self.left) = (None, None);
        self.fits(self.core.entry, tokens.len(), tape.rows)?;
        self.core.prompt.clear();
        self.core.prompt.extend_from_slice(tokens);
        let key = self.key(tape);
        let recorded =
            tape.ending != Ending::Logits && self.prompts.serve(self.graph.life(), tape.rows);
        if recorded {
            let (mut step, graph, prompts) = self.split(tape);
            prompts.run(key, &mut step, graph.life_mut())?;
        } else if self.eager_until(tape, tokens, preempts)? == Pass::Preempted {
            return Ok(Pass::Preempted);
        }
        if tape.ending != Ending::Token {
            self.core.conversations[self.core.entry].state.position += tokens.len();
        }
        Ok(Pass::Ended)
    }

    fn step_rows(
        &mut self,
        tape: &Tape,
        entries: &[usize],
        forced: &[u32],
        leaves: Leaves<'_>,
        behind: Option<Behind<'_>>,
    ) -> Result<Pass, ExecuteError> {
        for entry in entries {
            let rows = entries.iter().filter(|other| *other == entry).count();
            self.fits(*entry, rows, tape.rows)?;
        }
        let begun = Instant::now();
        let before = self.launches_ahead.then(|| self.standing(entries));
        let ahead = self.ahead.take();
        let mut ran = match ahead.filter(|ahead| forced.is_empty() && ahead.serves(entries)) {
            Some(ahead) => ahead.take(&mut self.core.conversations, entries),
            None => match self.run_rows(tape, entries, forced, leaves) {
                Ok(Pass::Preempted) => return Ok(Pass::Preempted),
                ran => ran.map(drop),
            },
        };
        self.left = None;
        if let Some(before) = before {
            if let Some(behind) = behind.filter(|_| !is_refused(&ran)) {
                self.left = self.left_logits(tape).ok();
                ran = self.launch_behind(behind).and(ran);
            }
            // What is refused takes the tokens of the step before along.
            if is_refused(&ran) {
                self.left = None;
                self.stand(before);
            }
        }
        // All of it is computing: of the engine's own work nothing is in here.
        self.times.waited = begun.elapsed();
        ran.map(|()| Pass::Ended)
    }

    fn leave_step(&mut self, _: &Tape) -> Result<bool, ExecuteError> {
        Ok(self.is_left())
    }

    fn is_left(&self) -> bool {
        self.left_step.is_some()
    }

    fn is_ahead(&self) -> bool {
        self.ahead.is_some() || self.is_left()
    }

    fn abandon_ahead(&mut self) -> Result<(), ExecuteError> {
        (self.ahead, self.left_step) = (None, None);
        Ok(())
    }

    fn time_step(&mut self, tape: &Tape) -> Result<Option<Vec<Option<Span>>>, ExecuteError> {
        if self.is_ahead() {
            return self.step(tape, false).map(|()| None);
        }
        self.fits(self.core.entry, 1, tape.rows)?;
        self.core.rows.clear();
        self.core.rows.push(self.core.entry);
        let before = self
            .core
            .timestamps
            .replace(Timestamps::new(tape.ops.len()));
        let begun = Instant::now();
        let (mut step, graph, _) = self.split(tape);
        let ran = graph.step_eagerly(&mut step);
        let spans = self.take_spans();
        self.core.timestamps = before;
        self.times.waited = begun.elapsed();
        ran.and(spans).map(Some)
    }

    fn measure(&mut self, step: &Tape, _: Timed) -> Result<(), ExecuteError> {
        self.core.timestamps = Some(Timestamps::new(step.ops.len()));
        Ok(())
    }

    fn take_spans(&mut self) -> Result<Vec<Option<Span>>, ExecuteError> {
        let timestamps = self.core.timestamps.as_mut();
        Ok(timestamps.map(Timestamps::take).unwrap_or_default())
    }

    fn logits(&self, tape: &Tape, row: usize) -> &[f32] {
        self.core.logits(tape, row)
    }

    fn left_logits(&mut self, tape: &Tape) -> Result<Vec<f32>, ExecuteError> {
        if let Some(left) = &self.left {
            return Ok(left.clone());
        }
        let rows = (0..tape.scored_rows()).flat_map(|row| self.core.logits(tape, row));
        Ok(rows.copied().collect())
    }

    fn keeps_logits(&self) -> bool {
        true
    }

    fn step_times(&self) -> StepTimes {
        self.times
    }

    fn graph(&self) -> &LifeCycle {
        self.graph.life()
    }

    fn graph_mut(&mut self) -> &mut LifeCycle {
        self.graph.life_mut()
    }

    fn prompt_graphs(&self) -> Counts {
        self.prompts.counts()
    }

    fn succeed_prompts(&mut self, before: Counts) {
        self.prompts.succeed(before);
    }

    fn record(&mut self, tape: &Tape, entry: usize) -> Result<(), ExecuteError> {
        self.core.entry = entry;
        let key = self.key(tape);
        let (mut prompt, graph, prompts) = self.split(tape);
        prompts.record(key, &mut prompt, graph.life_mut())
    }

    fn reset_graph(&mut self) {
        self.prompts.clear();
        self.graph.reset();
    }

    fn set_graph_mode(&mut self, mode: Mode) {
        self.prompts.clear();
        self.graph.set_mode(mode);
    }

    fn launches(&mut self, tape: &Tape) -> Vec<(&'static str, String)> {
        let ops = tape.ops.iter();
        ops.map(|op| (op.name(), op.name().into())).collect()
    }

    fn graph_dot(&self) -> Result<String, ExecuteError> {
        let recorded = self.graph.execs().enumerate();
        Ok(recorded.map(|(index, living)| living.dot(index)).collect())
    }

    fn faults(&self) -> &Faults {
        &self.faults
    }
}

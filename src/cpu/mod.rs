//! The CPU executor: the reference, plain loops over quantized rows with f32 accumulation.
//!
//! It also records and replays its steps, by which it gains nothing but the life cycle of the decode graph.

mod attention;
mod cache;
mod core;
mod dots;
mod exp;
mod footprint;
mod groups;
mod inspect;
mod load;
mod matmul;
mod norm;
mod notes;
mod rope;
mod softmax;
mod step;
mod threads;
mod weight;

use std::time::Instant;

use self::core::{Core, Guide};
pub use self::footprint::footprint;
pub use self::load::load;
use self::notes::Notes;
use self::step::{Living, Step};
pub use self::weight::{Matrix, Weight};
use crate::fault::Faults;
use crate::graph::{Buckets, Counts, DecodeGraph, Key, LifeCycle, Mode, Ran, Stepper};
use crate::sampler::{Mask, Parameters, Scored};
use crate::tape::{
    Angles, Ending, ExecuteError, GraphOptions, KvInfo, Pace, Span, StepState, Tape,
};

/// A model's weights, cache and activations in host memory, and the graph of its step.
#[derive(Debug)]
pub struct Cpu {
    core: Core,
    graph: DecodeGraph<Living>,
    prompts: Buckets<Living>,
    kv: KvInfo,
    /// How often the memory of a slot has moved.
    moves: u64,
    faults: Faults,
    pace: Pace,
}

impl Cpu {
    /// # Errors
    /// If the threads cannot be started.
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
            kv,
            moves: 0,
            faults: Faults::default(),
            pace: Pace::default(),
        })
    }

    /// Makes room for a tape: after this, running it moves nothing.
    pub fn prepare(&mut self, tape: &Tape) {
        let before: Vec<u64> = self.core.addresses().collect();
        self.core.prepare(tape);
        if !self.core.addresses().eq(before) {
            self.moves += 1;
        }
    }

    /// Bytes of activations.
    #[must_use]
    pub fn activation_bytes(&self) -> usize {
        self.core.activation_bytes()
    }

    /// Starts a request at `position` of a region of the cache.
    pub fn begin(
        &mut self,
        (region, position): (usize, usize),
        parameters: Parameters,
        prompt: &[u32],
    ) {
        self.core.region = region;
        let conversation = &mut self.core.conversations[region];
        conversation.state.position = position;
        conversation.sampler.begin(parameters, prompt);
        conversation.guide = Guide::Free;
        conversation.scored.clear();
    }

    /// From now on the positions of a conversation lie in these pages, and it has no others.
    pub fn seat(&mut self, region: usize, pages: &[usize]) {
        self.core.cache.seat(region, pages);
    }

    /// Copies what a page holds to another.
    pub fn copy_page(&mut self, from: usize, to: usize) {
        self.core.cache.copy_page(from, to);
    }

    /// From now on the turn in another region of the cache is the one that runs.
    pub fn turn_to(&mut self, region: usize) {
        self.core.region = region;
    }

    /// The next step starts with `token` rather than the one chosen last.
    pub fn post(&mut self, token: u32) {
        let conversation = &mut self.core.conversations[self.core.region];
        conversation.state.token = token;
        conversation.sampler.correct(token);
    }

    /// What a conversation may say next; `None`: anything, from now on. Once it has had a mask it waits for another before
    /// each of its tokens.
    pub fn guide(&mut self, region: usize, mask: Option<&Mask>) {
        self.core.conversations[region].guide =
            mask.map_or(Guide::Free, |mask| Guide::Allows(mask.clone()));
    }

    /// Whether the last step left a conversation as it was, for want of its mask.
    #[must_use]
    pub fn waits(&self, region: usize) -> bool {
        self.core.conversations[region].waits
    }

    /// The token that a conversation chose last, then the most probable ones; empty where nobody asked.
    #[must_use]
    pub fn scored(&self, region: usize) -> &[Scored] {
        &self.core.conversations[region].scored
    }

    /// Where generation of the turn that runs stands.
    #[must_use]
    pub fn state(&self) -> StepState {
        self.state_of(self.core.region)
    }

    /// Where generation of a region stands.
    #[must_use]
    pub fn state_of(&self, region: usize) -> StepState {
        self.core.conversations[region].state
    }

    /// The row of logits that a tape of `Ending::Logits` left.
    #[must_use]
    pub fn logits(&self, tape: &Tape, row: usize) -> &[f32] {
        self.core.logits(tape, row)
    }

    #[must_use]
    pub fn graph(&self) -> &LifeCycle {
        self.graph.life()
    }

    pub fn graph_mut(&mut self) -> &mut LifeCycle {
        self.graph.life_mut()
    }

    #[must_use]
    pub fn prompt_graphs(&self) -> Counts {
        self.prompts.counts()
    }

    /// Goes on with what was counted of another executor's prompts.
    pub fn succeed_prompts(&mut self, before: Counts) {
        self.prompts.succeed(before);
    }

    /// Records a prepared tape of a prompt for a region of the cache, without running it.
    ///
    /// # Errors
    /// Only as a test asks for.
    pub fn record(&mut self, tape: &Tape, region: usize) -> Result<(), ExecuteError> {
        self.core.region = region;
        let key = self.key(tape);
        let (mut prompt, graph, prompts) = self.split(tape);
        prompts.record(key, &mut prompt, graph.life_mut())
    }

    fn key(&self, tape: &Tape) -> Key {
        Key {
            rows: tape.rows,
            token: tape.ending == Ending::Token,
            region: self.core.region,
            moves: self.moves,
        }
    }

    /// Drops all that was recorded.
    pub fn reset_graph(&mut self) {
        self.prompts.clear();
        self.graph.reset();
    }

    pub fn set_graph_mode(&mut self, mode: Mode) {
        self.prompts.clear();
        self.graph.set_mode(mode);
    }

    #[must_use]
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// What is recorded, in DOT.
    #[must_use]
    pub fn graph_dot(&self) -> String {
        let mut dot = String::new();
        for (index, living) in self.graph.execs().enumerate() {
            dot += &living.dot(index);
        }
        dot
    }

    /// From now on operations note when they begin and end.
    pub fn measure(&mut self, step: &Tape) {
        self.core.notes = Some(Notes::new(step.ops.len()));
    }

    /// When operations of the last step began and ended, in nanoseconds; empty where nothing was measured.
    #[must_use]
    pub fn take_spans(&mut self) -> Vec<Option<Span>> {
        self.core
            .notes
            .as_mut()
            .map(Notes::take)
            .unwrap_or_default()
    }

    /// What tests let fail.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Runs a prepared tape of a prompt; fewer `tokens` than it has rows are padded.
    ///
    /// # Errors
    /// A token outside the vocabulary, a position outside the context, logits that are not finite.
    /// The state is then as before.
    pub fn run(&mut self, tape: &Tape, tokens: &[u32]) -> Result<(), ExecuteError> {
        self.fits(self.core.region, tokens.len(), tape.rows)?;
        self.core.prompt.clear();
        self.core.prompt.extend_from_slice(tokens);
        let key = self.key(tape);
        let recorded =
            tape.ending != Ending::Logits && self.prompts.serve(self.graph.life(), tape.rows);
        let (mut step, graph, prompts) = self.split(tape);
        if recorded {
            prompts.run(key, &mut step, graph.life_mut())?;
        } else {
            step.eager(0..tape.ops.len())?;
        }
        if tape.ending != Ending::Token {
            self.core.conversations[self.core.region].state.position += tokens.len();
        }
        Ok(())
    }

    /// Runs one step of the turn that runs.
    ///
    /// # Errors
    /// As `run`.
    pub fn step(&mut self, tape: &Tape) -> Result<(), ExecuteError> {
        self.step_rows(tape, &[self.core.region], &[])
    }

    /// The same of several conversations, each a row; a tape of more rows is filled up. Where one comes again, it goes on
    /// with the next of `forced` tokens.
    ///
    /// # Errors
    /// As `run`; one that does not fit is said before anything runs.
    pub fn step_rows(
        &mut self,
        tape: &Tape,
        regions: &[usize],
        forced: &[u32],
    ) -> Result<(), ExecuteError> {
        for region in regions {
            let rows = regions.iter().filter(|other| *other == region).count();
            self.fits(*region, rows, tape.rows)?;
        }
        if let [region] = regions {
            self.core.region = *region;
        }
        self.core.rows.clear();
        self.core.rows.extend_from_slice(regions);
        self.core.forced.clear();
        self.core.forced.extend_from_slice(forced);
        let begun = Instant::now();
        let (mut step, graph, _) = self.split(tape);
        if graph.step(&mut step)? == Ran::Replayed {
            graph.life_mut().arrived();
        }
        // All of it is computing: of the engine's own work nothing is in here.
        self.pace.waited = begun.elapsed();
        Ok(())
    }

    /// Runs one step of the turn that runs, whose operations note when they begin and end; what is recorded is neither
    /// run nor touched.
    ///
    /// # Errors
    /// As `step`.
    pub fn time_step(&mut self, tape: &Tape) -> Result<Vec<Option<Span>>, ExecuteError> {
        self.fits(self.core.region, 1, tape.rows)?;
        self.core.rows.clear();
        self.core.rows.push(self.core.region);
        let before = self.core.notes.replace(Notes::new(tape.ops.len()));
        let begun = Instant::now();
        let (mut step, graph, _) = self.split(tape);
        let ran = graph.step_eagerly(&mut step);
        let spans = self.take_spans();
        self.core.notes = before;
        self.pace.waited = begun.elapsed();
        ran.map(|_| spans)
    }

    fn fits(&self, region: usize, tokens: usize, rows: usize) -> Result<(), ExecuteError> {
        let position = self.core.conversations[region].state.position;
        let context = self.core.cache.capacity(region);
        if (1..=rows).contains(&tokens) && position + tokens <= context {
            return Ok(());
        }
        Err(ExecuteError::Context {
            rows: tokens,
            position,
            context,
        })
    }

    /// A tape, ready to run, beside the graphs that may do it.
    fn split<'a>(
        &'a mut self,
        tape: &'a Tape,
    ) -> (
        Step<'a>,
        &'a mut DecodeGraph<Living>,
        &'a mut Buckets<Living>,
    ) {
        let step = Step {
            layout: self.moves * self.kv.entries as u64 + step::region(&self.core, tape) as u64,
            chosen: self.core.chosen,
            core: &mut self.core,
            tape,
            faults: &self.faults,
            capturing: false,
        };
        (step, &mut self.graph, &mut self.prompts)
    }
}

//! One model on one executor: prefill in chunks, steps of several rows, the pages of the cache.
//!
//! It knows tokens and positions only: no queue, no sessions, no text. `load` makes runners; the engine drives one, and
//! the offline tools drive theirs directly.

// A runner is made from these.
mod head_tapes;
mod kv_selection;
mod logits_observer;
mod model;
mod state_use;
mod system_memory;
// What a runner does, besides prefill and single steps, which are below.
mod draft;
mod head;
mod image_places;
mod image_state;
mod images;
mod memory;
mod mixed_prompt;
mod pages;
mod recordings;
mod retired;
mod rows;
mod states;
mod successor;
mod timed;
// What it returns.
mod error;
mod log_sum_exp;
// The tower of a model that sees images.
mod tower;

use std::collections::HashMap;
use std::time::Duration;

pub use self::draft::Trial;
pub use self::error::RunError;
use self::head_tapes::HeadTapes;
use self::image_places::ImagePlaces;
pub use self::image_places::ImageTile;
use self::image_state::ImageState;
pub use self::images::TileEmbeddings;
pub use self::kv_selection::{KEY_BOUND, KeyReason, KvSelection};
pub(crate) use self::log_sum_exp::log_sum_exp;
pub use self::logits_observer::LogitsObserver;
pub use self::mixed_prompt::{MixedPrompt, PromptImage, PromptInput, RotaryPositions};
pub(crate) use self::model::{Model, Options};
pub use self::retired::RetiredRunner;
pub(crate) use self::rows::OpCost;
pub use self::rows::Stepped;
pub use self::state_use::LostStates;
use self::state_use::StateUse;
pub use self::system_memory::MemoryUse;
pub(crate) use self::system_memory::SystemMemory;
pub use self::timed::KindTime;
pub use self::tower::{Embeddings, EncodeError, Tower};
use crate::executor::{Executor, Pass, PreemptPrompt, StepTimes};
use crate::fault::{Call, Fault, How};
use crate::graph::{GraphOptions, Mode};
use crate::kv::{self, Copied, Kv, Layout, Owner, Wanted};
use crate::model::Shape;
use crate::model::forward::Forward;
use crate::sampler::Parameters;
use crate::tape::{Ending, Input, KvInfo, STEP_ROWS, StepBytes, Tape};

/// Rows of logits that are computed at once. Each is as wide as the vocabulary.
const SCORED_ROWS: usize = 64;
/// The most tapes of prompts of different lengths.
const PROMPTS: usize = 64;

/// A loaded model, its cache, and the state of its slots.
#[derive(Debug)]
pub struct Runner {
    forward: Forward,
    executor: Box<dyn Executor>,
    /// The device, or why it is not another.
    description: String,
    kv: Kv,
    step: Tape,
    step_bytes: StepBytes,
    /// The tapes of steps, by their rows: 1, 2, 4 or 8.
    steps: HashMap<usize, Tape>,
    head: HeadTapes,
    /// The most rows of a step. Each has a slot of its own, except the rows of forced and guessed tokens.
    rows: usize,
    /// The most positions of a slot.
    context: usize,
    vocabulary: usize,
    /// The tapes of prompts, by their rows. Each is written on its first use.
    prompts: HashMap<(usize, Ending), Tape>,
    images: ImageState,
    prefill_chunk: usize,
    /// The numbers of rows to which short prompts are padded, in order.
    capture_sizes: Vec<usize>,
    weight_bytes: u64,
    /// Whether the cache is in the system's memory, rather than in a GPU's own.
    uses_system_memory: bool,
    system_memory: SystemMemory,
    /// How long memory of the cache stays unused before it is released.
    release_after: Duration,
    kv_selection: KvSelection,
    state_use: StateUse,
    observer: Option<LogitsObserver>,
}

impl Runner {
    /// Makes a runner, and prepares its first steps. `prepared` is called after each preparation.
    ///
    /// # Errors
    /// If the model does not fit its tape, or the executor fails.
    pub(crate) fn new(
        model: Model,
        options: Options,
        prepared: &mut dyn FnMut(),
    ) -> Result<Self, RunError> {
        let Model {
            forward,
            executor,
            prefill_chunk,
            description,
            uses_system_memory,
            kv_selection,
            weight_bytes,
        } = model;
        let Options {
            reuse,
            rows,
            graph,
            release_after,
            system_memory,
            observer,
        } = options;
        let step = forward.tape(1, Input::Step, Ending::Token);
        step.check()?;
        let KvInfo {
            slots,
            pages,
            chunk,
            ..
        } = forward.kv;
        let mut runner = Self {
            executor,
            description,
            kv: Kv::new(slots, (pages, chunk), reuse).with_layout(layout(&forward)),
            step_bytes: StepBytes::of(&step),
            step,
            steps: HashMap::new(),
            head: HeadTapes::default(),
            rows: rows.clamp(1, STEP_ROWS),
            context: forward.kv.longest(),
            vocabulary: forward.shape.vocabulary,
            forward,
            prompts: HashMap::new(),
            images: ImageState::default(),
            prefill_chunk,
            capture_sizes: sizes(&graph, prefill_chunk),
            weight_bytes,
            uses_system_memory,
            system_memory,
            release_after,
            kv_selection,
            state_use: StateUse::default(),
            observer,
        };
        let Shape { placeholders, .. } = &runner.forward.shape;
        (runner.executor).refuse_tokens(placeholders, runner.vocabulary);
        prepared();
        // The largest tape comes first: the others use the memory that it allocates.
        runner.prompt_tape(runner.prefill_chunk, Ending::Token)?;
        prepared();
        runner.executor.prepare(&runner.step)?;
        if rows > 1 {
            runner.prepare_steps()?;
            runner.prepare_head()?;
        }
        prepared();
        if graph.mode == Mode::Full && graph.record_at_start {
            runner.record_prompts(prepared)?;
        }
        let refused = Fault {
            call: Call::GraphLaunch,
            skip: 0,
            how: How::Before,
        };
        let faults = runner.executor.faults();
        faults.repeat(refused, graph.refuse_launches);
        Ok(runner)
    }

    /// Records prompts of every size for the first slot, and calls `recorded` after each. A GPU's recordings serve all slots;
    /// the CPU records for the others on demand.
    fn record_prompts(&mut self, recorded: &mut dyn FnMut()) -> Result<(), RunError> {
        for rows in self.capture_sizes.clone() {
            for ending in [Ending::Token, Ending::Kv] {
                self.prompt_tape(rows, ending)?;
                self.executor.record(&self.prompts[&(rows, ending)], 0)?;
                recorded();
            }
        }
        Ok(())
    }

    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.forward.shape
    }

    #[must_use]
    pub fn backend(&self) -> &'static str {
        self.executor.name()
    }

    /// Returns the device, and why it is not another; for people.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the types of the cache, and the reason.
    #[must_use]
    pub fn kv_selection(&self) -> KvSelection {
        self.kv_selection
    }

    /// Returns the executor.
    #[must_use]
    pub fn executor(&self) -> &dyn Executor {
        &*self.executor
    }

    /// Returns the most positions of a slot.
    #[must_use]
    pub fn context(&self) -> usize {
        self.context
    }

    /// Returns the positions that a slot has pages for.
    #[must_use]
    pub fn capacity_of(&self, slot: usize) -> usize {
        self.context().min(self.kv.capacity_of(slot))
    }

    /// Returns the most tokens of one `prefill`.
    #[must_use]
    pub fn prefill_chunk(&self) -> usize {
        self.prefill_chunk
    }

    /// Returns the current slot, of which `prefill` and `step` run.
    #[must_use]
    pub fn slot(&self) -> usize {
        self.kv.active()
    }

    /// Returns the tokens in the current slot.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kv.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kv.is_empty()
    }

    /// Starts a prompt of a user in a slot of full length. Reuses pages that hold a prefix of it, and returns the number of
    /// tokens of that prefix. The rest, at least one token, is for `prefill`.
    ///
    /// # Errors
    /// If other slots have the pages, or the device has failed.
    pub fn begin(
        &mut self,
        owner: Option<Owner>,
        user: u32,
        prompt: &[u32],
        parameters: Parameters,
    ) -> Result<usize, RunError> {
        self.begin_with(
            owner,
            user,
            Wanted::without_answers(prompt),
            parameters,
            self.context(),
        )
    }

    /// Starts a prompt in a slot of `positions` positions.
    fn begin_with(
        &mut self,
        owner: Option<Owner>,
        user: u32,
        prompt: Wanted<'_>,
        parameters: Parameters,
        positions: usize,
    ) -> Result<usize, RunError> {
        self.allocate(owner, positions.max(prompt.tokens.len()))?;
        let mut begun = self.kv.begin(owner, user, prompt, positions);
        if begun.is_none() {
            // A step that was launched ahead may have the pages. Its tokens are dropped.
            self.executor.discard_ahead()?;
            self.lift_quarantine();
            begun = self.kv.begin(owner, user, prompt, positions);
        }
        let kv::Turn {
            slot,
            cached,
            copies,
            state,
            change,
        } = begun.ok_or(RunError::NoPages { positions })?;
        self.changed(change);
        let mut seated = self.executor.set_pages(slot, &self.kv.tables_of(slot));
        for Copied { from, to } in copies {
            seated = seated.and_then(|()| self.executor.copy_page(from, to));
        }
        let seated = seated.map_err(RunError::from);
        let seated = seated.and_then(|()| match &state {
            None => Ok(()),
            Some(start) => self.set_state(slot, start),
        });
        seated.inspect_err(|_| self.kv.lose())?;
        self.images.set_places(slot, ImagePlaces::NONE);
        self.begin_slot((slot, cached), parameters, prompt.tokens)?;
        Ok(cached)
    }

    /// Rewinds a session to its first `keep` tokens.
    ///
    /// # Errors
    /// If its turn runs, or the device has failed.
    pub fn rewind(&mut self, owner: Owner, keep: usize) -> Result<(), RunError> {
        self.lift_quarantine();
        let mut rewound = self.kv.rewind(owner, keep);
        if rewound.is_err() && self.kv.is_launched_of(owner) {
            // Its turn has ended. The tokens of a step that was launched ahead are dropped.
            self.executor.discard_ahead()?;
            self.lift_quarantine();
            rewound = self.kv.rewind(owner, keep);
        }
        if let Some(change) = rewound.map_err(|kv::Runs| RunError::Runs)? {
            self.changed(change);
        }
        Ok(())
    }

    /// Reports to the decode graph a change of the cache that may make its recordings invalid.
    fn changed(&mut self, change: kv::Change) {
        self.executor
            .graphs_mut()
            .life_mut()
            .change(change, self.kv.epoch());
    }

    /// Releases the pages of a session that has ended.
    pub fn release(&mut self, owner: Owner) {
        self.kv.release(owner);
    }

    /// Gives a session all pages of another, which both share then.
    pub fn branch(&mut self, from: Owner, to: Owner) {
        self.kv.branch(from, to);
    }

    /// Drops a user's pages that no session owns.
    pub fn erase(&mut self, user: u32) {
        self.kv.erase(user);
    }

    /// Runs at most `prefill_chunk` tokens of a prompt in the current slot. With `Ending::Token` it chooses the next token.
    ///
    /// # Errors
    /// As `Executor::run`. The cache stays as it was then.
    pub fn prefill(&mut self, tokens: &[u32], ending: Ending) -> Result<(), RunError> {
        self.prefill_until(tokens, ending, None).map(drop)
    }

    /// Runs the rest of a prompt in chunks, and chooses the next token.
    ///
    /// # Errors
    /// As `prefill`. The earlier chunks stay in the cache.
    pub fn prefill_all(&mut self, tokens: &[u32]) -> Result<(), RunError> {
        let mut left = tokens;
        while !left.is_empty() {
            let rows = self.run_length(self.slot(), left.len(), self.prefill_chunk);
            let (run, others) = left.split_at(rows);
            let ending = if others.is_empty() {
                Ending::Token
            } else {
                Ending::Kv
            };
            self.prefill(run, ending)?;
            left = others;
        }
        Ok(())
    }

    /// Runs tokens as `prefill` does, unless `preempts` returns true between two half layers. Then none of the tokens is in the
    /// cache, and the next call continues.
    pub fn prefill_until(
        &mut self,
        tokens: &[u32],
        ending: Ending,
        preempts: PreemptPrompt<'_>,
    ) -> Result<Pass, RunError> {
        if tokens.is_empty() {
            return Ok(Pass::Ended);
        }
        self.seat(&[self.kv.active()])?;
        self.settle_rotation(self.kv.active())?;
        let rows = self.padded(tokens.len(), ending);
        self.prompt_tape(rows, ending)?;
        let tape = &self.prompts[&(rows, ending)];
        let ran = self.executor.run_until(tape, tokens, preempts);
        // Tokens of steps ahead are dropped, unless the step is preempted.
        if !self.executor.is_step_preempted() {
            self.stepped(&[]);
        }
        let pass = ran?;
        if pass == Pass::Ended {
            self.kv.extend(tokens);
            self.store_due_state()?;
            if ending == Ending::Token {
                let tape = &self.prompts[&(rows, ending)];
                let observer = self.observer.as_ref();
                logits_observer::show(observer, &mut *self.executor, tape, [0])?;
            }
        }
        Ok(pass)
    }

    /// Stores the recurrent state of the current slot if a checkpoint is due.
    fn store_due_state(&mut self) -> Result<(), RunError> {
        let slot = self.kv.active();
        if let Some(pieces) = self.kv.due_pieces(slot) {
            let position = self.kv.len_of(slot);
            self.executor.store_state(slot, position, pieces)?;
            self.kv.checkpointed(slot);
        }
        Ok(())
    }

    /// Launches a prompt that `prefill` continues, if a step is ahead, whose tokens can be taken meanwhile.
    pub fn start(&mut self, tokens: &[u32], ending: Ending) -> Result<(), RunError> {
        if tokens.is_empty() || !self.executor.is_ahead() {
            return Ok(());
        }
        self.seat(&[self.kv.active()])?;
        self.settle_rotation(self.kv.active())?;
        let rows = self.padded(tokens.len(), ending);
        self.prompt_tape(rows, ending)?;
        let tape = &self.prompts[&(rows, ending)];
        let started = self.executor.start_prompt(tape, tokens);
        self.checked(started)
    }

    /// Waits for the last launch.
    pub fn finish(&mut self) -> Result<(), RunError> {
        Ok(self.executor.finish()?)
    }

    /// Quarantines the pages of slots that a step ahead writes to, if there is one.
    fn stepped(&mut self, slots: &[usize]) {
        let ahead = self.executor.is_ahead();
        self.kv.launched(if ahead { slots } else { &[] });
    }

    /// Ends the quarantine of pages if no step is ahead.
    fn lift_quarantine(&mut self) {
        if !self.executor.is_ahead() {
            self.kv.launched(&[]);
        }
    }

    /// Ends the quarantine if a launch was refused.
    fn checked<T, E: Into<RunError>>(&mut self, ran: Result<T, E>) -> Result<T, RunError> {
        if ran.is_err() {
            self.lift_quarantine();
        }
        ran.map_err(Into::into)
    }

    /// Returns the token that was chosen last, which the next `step` runs.
    #[must_use]
    pub fn token(&self) -> u32 {
        self.executor.state().token
    }

    /// Returns the rows of the tape that runs `rows`: the next recorded size, or exactly as many.
    fn padded(&self, rows: usize, ending: Ending) -> usize {
        let recorded = self.graph().mode() == Mode::Full && ending != Ending::Logits;
        let mut sizes = self.capture_sizes.iter().copied();
        sizes.find(|size| recorded && *size >= rows).unwrap_or(rows)
    }

    /// Runs the chosen token in the current slot, and chooses the next one. `more` says that another step follows, so that a
    /// device can launch it ahead.
    ///
    /// # Errors
    /// As `Executor::run`. The cache stays as it was then.
    pub fn step(&mut self, more: bool) -> Result<u32, RunError> {
        let (token, slot) = (self.executor.state().token, self.kv.active());
        self.seat(&[slot])?;
        // A step ahead may overwrite the logits.
        let more = more && (self.observer.is_none() || self.executor.keeps_logits());
        let ran = self.executor.step(&self.step, more);
        self.checked(ran)?;
        self.kv.push(token);
        let observer = self.observer.as_ref();
        logits_observer::show(observer, &mut *self.executor, &self.step, [0])?;
        self.stepped(&[slot]);
        Ok(self.executor.state().token)
    }

    /// Returns how the last step spent its time.
    #[must_use]
    pub(crate) fn step_times(&self) -> StepTimes {
        self.executor.step_times()
    }

    /// Returns the bytes that the next `step` moves.
    #[must_use]
    pub(crate) fn step_bytes(&self) -> u64 {
        self.step_bytes.at(self.kv.len())
    }

    /// Runs `tokens` in the current slot, and calls `each` with the logits of every row in order.
    pub fn logits(&mut self, tokens: &[u32], mut each: impl FnMut(&[f32])) -> Result<(), RunError> {
        for chunk in tokens.chunks(self.prefill_chunk.min(SCORED_ROWS)) {
            self.prefill(chunk, Ending::Logits)?;
            let tape = &self.prompts[&(chunk.len(), Ending::Logits)];
            (0..chunk.len()).for_each(|row| each(self.executor.logits(tape, row)));
        }
        Ok(())
    }

    fn prompt_tape(&mut self, rows: usize, ending: Ending) -> Result<(), RunError> {
        if !self.prompts.contains_key(&(rows, ending)) {
            let tape = self.forward.tape(rows, Input::Prompt, ending);
            tape.check()?;
            self.executor.prepare(&tape)?;
            if self.prompts.len() >= PROMPTS {
                let (chunk, recorded) = (self.prefill_chunk, &self.capture_sizes);
                let stays = |rows| rows == chunk || recorded.contains(&rows);
                self.prompts.retain(|(rows, _), _| stays(*rows));
            }
            self.prompts.insert((rows, ending), tape);
        }
        Ok(())
    }
}

/// Returns how the cache divides the pages of a model.
fn layout(forward: &Forward) -> Layout {
    let is_joined = forward.shape.images.is_joined();
    forward.kv.layout().with_whole_images(is_joined)
}

/// Returns the sizes that a chunk can be padded to, in order.
fn sizes(graph: &GraphOptions, prefill_chunk: usize) -> Vec<usize> {
    let mut sizes = graph.capture_sizes.clone();
    sizes.retain(|size| *size <= prefill_chunk);
    sizes.sort_unstable();
    sizes
}

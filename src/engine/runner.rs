//! Drives one model on one executor: prefill in chunks, then step by step.
//!
//! It knows tokens and positions only: no queue, no sessions, no text. The offline tools use it directly.

mod error;
mod memory;
mod pages;
mod rows;
mod successor;
mod timed;

use std::collections::HashMap;

pub use self::error::RunError;
pub(crate) use self::rows::OpCost;
pub use self::rows::Stepped;
pub use self::timed::KindTime;
pub use super::kv_choice::{KvChoice, KvChoices};
pub use super::kv_memory::KvMemory;
use super::kv_selection::KvSelection;
use super::load;
use super::load_error::LoadError;
pub use super::settings::{Activations, Backend, CudaSettings, Placement, Settings};
use super::witness;
pub use super::witness::Witness;
use crate::executor::{Executor, Pass, PreemptPrompt, StepTimes};
use crate::fault::{Call, Fault, How};
use crate::graph::{Counts, Event, GraphOptions, LifeCycle, Mode};
use crate::kv::{self, Copied, Kv, Owner, PAGE, Wanted};
use crate::model::forward::Forward;
use crate::model::{Checkpoint, Shape};
use crate::sampler::Parameters;
use crate::tape::{Ending, Input, KvInfo, STEP_ROWS, StepBytes, Tape};

/// Rows of logits that are kept at once: each is as wide as the vocabulary.
const SCORED_ROWS: usize = 64;
/// Tapes of prompts that are kept, of all lengths that these have had.
const PROMPTS: usize = 64;

/// A loaded model, its cache, and where generation stands.
#[derive(Debug)]
pub struct Runner {
    forward: Forward,
    executor: Box<dyn Executor>,
    /// Which device, or why it is not another.
    description: String,
    kv: Kv,
    step: Tape,
    step_bytes: StepBytes,
    /// These step several conversations, by rows: 1, 2, 4 or 8.
    steps: HashMap<usize, Tape>,
    /// The most rows of a step, each of another conversation, but for one that tokens are given to.
    rows: usize,
    vocabulary: usize,
    /// Tapes of a prompt's rows, each written on its first use.
    prompts: HashMap<(usize, Ending), Tape>,
    prefill_chunk: usize,
    /// Rows to which short prompts are padded, in order.
    capture_sizes: Vec<usize>,
    weight_bytes: u64,
    settings: Settings,
    /// Whether the cache lies in the system's memory, rather than in a GPU's own.
    uses_system_memory: bool,
    selection: KvSelection,
}

impl Runner {
    /// Loads the weights, calling `progress` with the bytes read so far and in all; then makes the first steps ready,
    /// calling it again for each.
    ///
    /// # Errors
    /// If the files cannot be read, or the model does not fit its tape.
    pub fn load(
        checkpoint: &Checkpoint,
        settings: &Settings,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self, LoadError> {
        let load::Loaded {
            forward,
            executor,
            prefill_chunk,
            description,
            uses_system_memory,
            selection,
        } = load::load(checkpoint, settings, progress)?;
        let step = forward.tape(1, Input::Step, Ending::Token);
        step.check()?;
        let KvInfo {
            slots,
            pages,
            chunk,
            ..
        } = forward.kv;
        let kv = Kv::new(slots, (pages, chunk), settings.reuse);
        let mut runner = Self {
            forward,
            executor,
            description,
            kv,
            step_bytes: StepBytes::of(&step),
            step,
            steps: HashMap::new(),
            rows: settings.rows.clamp(1, STEP_ROWS),
            vocabulary: checkpoint.shape.vocabulary,
            prompts: HashMap::new(),
            prefill_chunk,
            capture_sizes: sizes(&settings.graph, prefill_chunk),
            weight_bytes: checkpoint.weight_bytes(),
            settings: settings.clone(),
            uses_system_memory,
            selection,
        };
        let all = runner.weight_bytes;
        progress(all, all);
        // The largest first: what it allocates serves all others.
        runner.prompt_tape(runner.prefill_chunk, Ending::Token)?;
        progress(all, all);
        runner
            .executor
            .prepare(&runner.step)
            .map_err(RunError::from)?;
        if settings.rows > 1 {
            runner.prepare_steps()?;
        }
        progress(all, all);
        if settings.graph.mode == Mode::Full && settings.graph.record_at_start {
            runner.record_prompts(&mut || progress(all, all))?;
        }
        let refused = Fault {
            call: Call::GraphLaunch,
            skip: 0,
            how: How::Before,
        };
        let faults = runner.executor.faults();
        faults.repeat(refused, settings.graph.refuse_launches);
        Ok(runner)
    }

    /// Records prompts of every size for the first entry, and calls `recorded` after each. On a GPU they serve all; the CPU
    /// records for the others when they come.
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

    /// Which device that is, and why it is not another; for people.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The types of the cache, and why.
    #[must_use]
    pub fn kv_selection(&self) -> KvSelection {
        self.selection
    }

    /// What the executor has launched.
    #[must_use]
    pub fn executor(&self) -> &dyn Executor {
        &*self.executor
    }

    /// The most positions of a conversation.
    #[must_use]
    pub fn context(&self) -> usize {
        let KvInfo { context, pages, .. } = self.forward.kv;
        context.min(pages * PAGE)
    }

    /// Positions that an entry has pages for.
    #[must_use]
    pub fn capacity_of(&self, entry: usize) -> usize {
        self.context().min(self.kv.pages_of(entry).len() * PAGE)
    }

    /// The largest `tokens` that `prefill` takes.
    #[must_use]
    pub fn prefill_chunk(&self) -> usize {
        self.prefill_chunk
    }

    /// The entry that the turn runs in.
    #[must_use]
    pub fn entry(&self) -> usize {
        self.kv.active()
    }

    /// Tokens in the cache.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kv.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kv.is_empty()
    }

    /// Starts a turn of a user's conversation, as long as one may be: keeps what its pages already hold of `prompt`, or shares
    /// what others of that user hold of it, and returns how many tokens that are; the rest, at least one token, is for
    /// `prefill`.
    ///
    /// # Errors
    /// If other turns run and have the pages, or the device has failed.
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
            Wanted::read(prompt),
            parameters,
            self.context(),
        )
    }

    /// The same of a turn that has at most so many positions.
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
            // It may lack what a step has that was launched ahead: nobody takes its tokens any more.
            self.executor.discard_ahead()?;
            self.lift_quarantine();
            begun = self.kv.begin(owner, user, prompt, positions);
        }
        let kv::Turn {
            entry,
            cached,
            copy,
            change,
        } = begun.ok_or(RunError::NoPages { positions })?;
        self.changed(change);
        let mut seated = self.executor.set_pages(entry, self.kv.pages_of(entry));
        if let Some(Copied { from, to }) = copy {
            seated = seated.and_then(|()| self.executor.copy_page(from, to));
        }
        seated.inspect_err(|_| self.kv.lose())?;
        self.executor
            .begin((entry, cached), parameters, prompt.tokens)?;
        Ok(cached)
    }

    /// Keeps only the first `keep` tokens of a conversation.
    pub fn rewind(&mut self, owner: Owner, keep: usize) {
        if let Some(change) = self.kv.rewind(owner, keep) {
            self.changed(change);
        }
    }

    /// Every change of the cache that is not one more token of the same turn: what was recorded no longer is good.
    fn changed(&mut self, change: kv::Change) {
        self.executor
            .graphs_mut()
            .life_mut()
            .change(change, self.kv.epoch());
    }

    /// A conversation has ended: its pages serve others.
    pub fn release(&mut self, owner: Owner) {
        self.kv.release(owner);
    }

    /// Another conversation begins with all that one holds.
    pub fn branch(&mut self, from: Owner, to: Owner) {
        self.kv.branch(from, to);
    }

    /// What is nobody's any more of a user's serves nobody.
    pub fn erase(&mut self, user: u32) {
        self.kv.erase(user);
    }

    /// Runs at most `prefill_chunk` tokens of a prompt. With `Ending::Token` the next token has been
    /// chosen when it returns.
    ///
    /// # Errors
    /// As `Executor::run`; the cache then holds what it held before.
    pub fn prefill(&mut self, tokens: &[u32], ending: Ending) -> Result<(), RunError> {
        self.prefill_until(tokens, ending, None).map(drop)
    }

    /// Runs all that the cache lacks of a prompt, chunk after chunk, and chooses the token after it.
    ///
    /// # Errors
    /// As `prefill`; the chunks before are in the cache.
    pub fn prefill_all(&mut self, tokens: &[u32]) -> Result<(), RunError> {
        let mut chunks = tokens.chunks(self.prefill_chunk()).peekable();
        while let Some(chunk) = chunks.next() {
            let is_last = chunks.peek().is_none();
            self.prefill(chunk, if is_last { Ending::Token } else { Ending::Kv })?;
        }
        Ok(())
    }

    /// The same as `prefill`, but it may be left between two half layers, as `Executor::run_until`; none of `tokens` is in the
    /// cache then.
    pub fn prefill_until(
        &mut self,
        tokens: &[u32],
        ending: Ending,
        preempts: PreemptPrompt<'_>,
    ) -> Result<Pass, RunError> {
        if tokens.is_empty() {
            return Ok(Pass::Ended);
        }
        self.seated(&[self.kv.active()])?;
        let rows = self.padded(tokens.len(), ending);
        self.prompt_tape(rows, ending)?;
        let tape = &self.prompts[&(rows, ending)];
        let ran = self.executor.run_until(tape, tokens, preempts);
        // The tokens of steps that were ahead are nobody's now, but of one that was left.
        if !self.executor.is_step_preempted() {
            self.stepped(&[]);
        }
        let pass = ran?;
        if pass == Pass::Ended {
            self.kv.extend(tokens);
            if ending == Ending::Token {
                let tape = &self.prompts[&(rows, ending)];
                let witness = self.settings.witness.as_ref();
                witness::show(witness, &mut *self.executor, tape, [0])?;
            }
        }
        Ok(pass)
    }

    /// Has a device begin a prompt that `prefill` goes on with, where a step is ahead whose tokens are to be taken meanwhile.
    pub fn start(&mut self, tokens: &[u32], ending: Ending) -> Result<(), RunError> {
        if tokens.is_empty() || !self.executor.is_ahead() {
            return Ok(());
        }
        self.seated(&[self.kv.active()])?;
        let rows = self.padded(tokens.len(), ending);
        self.prompt_tape(rows, ending)?;
        let tape = &self.prompts[&(rows, ending)];
        let started = self.executor.start_prompt(tape, tokens);
        self.tried(started)
    }

    /// Waits for what was launched last.
    pub fn finish(&mut self) -> Result<(), RunError> {
        Ok(self.executor.finish()?)
    }

    /// What is about to run writes to the pages of these entries, which must be theirs.
    fn seated(&self, entries: &[usize]) -> Result<(), RunError> {
        match entries.iter().find(|entry| !self.kv.is_seated(**entry)) {
            Some(entry) => Err(RunError::Unseated { entry: *entry }),
            None => Ok(()),
        }
    }

    /// A step of these entries has run, and the one after it may have been launched.
    fn stepped(&mut self, entries: &[usize]) {
        let ahead = self.executor.is_ahead();
        self.kv.launched(if ahead { entries } else { &[] });
    }

    /// No step is ahead any more, if that is so: its tokens were taken or forgotten, or it was refused.
    fn lift_quarantine(&mut self) {
        if !self.executor.is_ahead() {
            self.kv.launched(&[]);
        }
    }

    /// The same after what may have been refused.
    fn tried<T, E: Into<RunError>>(&mut self, ran: Result<T, E>) -> Result<T, RunError> {
        if ran.is_err() {
            self.lift_quarantine();
        }
        ran.map_err(Into::into)
    }

    /// The token that was chosen last, which the next `step` will run.
    #[must_use]
    pub fn token(&self) -> u32 {
        self.executor.state().token
    }

    /// The rows of the tape that runs so many: the next recorded size, or just as many.
    fn padded(&self, rows: usize, ending: Ending) -> usize {
        let recorded = self.graph().mode() == Mode::Full && ending != Ending::Logits;
        let mut sizes = self.capture_sizes.iter().copied();
        sizes.find(|size| recorded && *size >= rows).unwrap_or(rows)
    }

    /// Runs the chosen token and chooses the one after it. `more` says that the step after that is wanted too, so
    /// that a device need not wait for the caller to ask.
    ///
    /// # Errors
    /// As `Executor::run`; the cache then holds what it held before.
    pub fn step(&mut self, more: bool) -> Result<u32, RunError> {
        let (token, entry) = (self.executor.state().token, self.kv.active());
        self.seated(&[entry])?;
        // Another step may overwrite what there is to see.
        let more = more && (self.settings.witness.is_none() || self.executor.keeps_logits());
        let ran = self.executor.step(&self.step, more);
        self.tried(ran)?;
        self.kv.push(token);
        let witness = self.settings.witness.as_ref();
        witness::show(witness, &mut *self.executor, &self.step, [0])?;
        self.stepped(&[entry]);
        Ok(self.executor.state().token)
    }

    /// How the last step spent its time.
    #[must_use]
    pub(crate) fn step_times(&self) -> StepTimes {
        self.executor.step_times()
    }

    /// The life cycle of the decode graph.
    #[must_use]
    pub fn graph(&self) -> &LifeCycle {
        self.executor.graphs().life()
    }

    /// What became of recorded prompts.
    #[must_use]
    pub fn prompt_graphs(&self) -> Counts {
        self.executor.graphs().prompt_counts()
    }

    /// What happened to the decode graph since the last call.
    pub fn take_graph_events(&mut self) -> Vec<Event> {
        self.executor.graphs_mut().life_mut().take_events()
    }

    /// Drops all that was recorded; what failures had disabled is tried again.
    pub fn reset_graph(&mut self) {
        self.executor.graphs_mut().reset();
    }

    /// Records in another way from now on.
    pub fn set_graph_mode(&mut self, mode: Mode) {
        self.executor.graphs_mut().set_mode(mode);
    }

    /// How many kernels, or operations of the CPU's, a step takes, recorded or not.
    #[must_use]
    pub(crate) fn step_launches(&mut self) -> usize {
        self.executor.launches(&self.step).len()
    }

    /// The kernels of a step of so many conversations, or of a part of a prompt of so many tokens, by operation; of what has run
    /// before.
    #[must_use]
    pub(crate) fn kernels(&mut self, input: Input, rows: usize) -> Vec<(&'static str, String)> {
        let tape = match input {
            Input::Step => self
                .steps
                .get(&rows.next_power_of_two())
                .unwrap_or(&self.step),
            Input::Prompt => {
                let key = (rows.min(self.prefill_chunk), Ending::Token);
                let Some(tape) = self.prompts.get(&key) else {
                    return Vec::new();
                };
                tape
            }
        };
        self.executor.launches(tape)
    }

    /// The decode graph in DOT.
    pub(crate) fn graph_dot(&self) -> Result<String, RunError> {
        Ok(self.executor.graph_dot()?)
    }

    /// Bytes that the next `step` must move.
    #[must_use]
    pub(crate) fn step_bytes(&self) -> u64 {
        self.step_bytes.at(self.kv.len())
    }

    /// Runs `tokens` after what the cache holds, and calls `each` with every row's logits in order.
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

/// The sizes that a chunk can be padded to.
fn sizes(graph: &GraphOptions, prefill_chunk: usize) -> Vec<usize> {
    let mut sizes = graph.capture_sizes.clone();
    sizes.retain(|size| *size <= prefill_chunk);
    sizes.sort_unstable();
    sizes
}

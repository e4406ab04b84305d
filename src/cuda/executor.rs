//! What an executor does, on a device: what begins turns, runs their prompts and their steps, and tells of them.

use std::time::Duration;

use super::queue::LaunchQueue;
use super::timestamps::Timestamps;
use super::{AHEAD, Cuda, Launched};
use crate::device::Modules;
use crate::executor::{Behind, Executor, Leaves, Pass, Preempts};
use crate::fault::Faults;
use crate::graph::{Counts, Graph, LifeCycle, Mode, Ran};
use crate::sampler::{History, Mask, Parameters, Promise, Scored};
use crate::tape::{Ending, ExecuteError, Span, StepState, StepTimes, Tape, Timed};

impl Executor for Cuda {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn multiprocessors(&self) -> Option<(u32, u32)> {
        let properties = self.context.properties();
        Some((properties.multiprocessors, properties.all_multiprocessors))
    }

    fn prepare(&mut self, tape: &Tape) -> Result<(), ExecuteError> {
        if self.buffers.grow(&self.context, tape, &mut self.stream)? {
            self.moves += 1;
            self.started = None;
            // Where it was kept is elsewhere.
            self.forget_launched();
        }
        Ok(())
    }

    fn activation_bytes(&self) -> u64 {
        self.buffers.bytes() + self.scratch.arena.bytes()
    }

    /// What the device is to know of it goes along with what is launched next.
    fn begin(
        &mut self,
        (entry, position): (usize, usize),
        parameters: Parameters,
        prompt: &[u32],
    ) -> Result<(), ExecuteError> {
        self.give_weights()?;
        self.forget_launched_of(entry);
        self.started = None;
        self.idle_since = None;
        self.entry = entry;
        self.late.forget(entry);
        self.preempted.forget(entry);
        self.conversations[entry].begin(position, parameters, &History::of(prompt));
        Ok(())
    }

    /// Steps that were launched ahead do not look at the table of an entry that they are not of: the device hears of its pages
    /// with the entry's next command. Those of the entry itself have ended before, so that none of them writes to a page that
    /// has become another conversation's.
    fn seat(&mut self, entry: usize, pages: &[usize]) -> Result<(), ExecuteError> {
        if self.is_launched(entry) {
            self.drain()?;
        }
        let changed = self.pages.seat(entry, pages);
        let each = self.pages.each();
        for index in changed.clone() {
            let address = self.pages.address(entry, index)?;
            self.scratch.tables.set(entry * each + index, address);
        }
        self.conversations[entry].seated(changed);
        Ok(())
    }

    /// Tables of those that run do not change. Others end before, and the device hears of that with their next command, before
    /// which no row is theirs. What is recorded names addresses of tables, never of pages.
    fn give_back(&mut self, chunks: &[usize]) -> Result<(), ExecuteError> {
        if chunks.is_empty() {
            return Ok(());
        }
        // A prompt that nobody waits for may still run.
        self.stream.synchronize()?;
        self.forget_launched();
        for entry in 0..self.kv.entries {
            let stays = self.pages.before(entry, chunks);
            self.seat(entry, &stays)?;
        }
        Ok(self.pages.give_back(chunks, &mut self.stream)?)
    }

    /// Nothing of it waits for steps.
    fn allocate(&mut self, chunk: usize) -> Result<(), ExecuteError> {
        Ok(self.pages.allocate(chunk, &mut self.stream)?)
    }

    /// It is queued before whatever comes next.
    fn copy_page(&mut self, from: usize, to: usize) -> Result<(), ExecuteError> {
        Ok(self.pages.copy(from, to, &mut self.stream)?)
    }

    fn send_page(&mut self, page: usize, positions: usize) -> Result<bool, ExecuteError> {
        Ok(self.pages.send(page, positions, &mut self.stream)?)
    }

    fn take_sent(&mut self) -> Result<Option<Vec<u8>>, ExecuteError> {
        Ok(self.pages.take_sent()?)
    }

    fn forget_sent(&mut self) {
        self.pages.forget_sent();
    }

    /// No step that was launched writes there.
    fn write_page(&mut self, page: usize, bytes: &[u8]) -> Result<bool, ExecuteError> {
        Ok(self.pages.write_page(page, bytes, &mut self.stream)?)
    }

    /// A compiler of another version gives the same kernels other last bits.
    fn identity(&self) -> String {
        format!("{}, kernels {:016x}", self.describe(), Modules::hash())
    }

    fn entry(&self) -> usize {
        self.entry
    }

    fn turn_to(&mut self, entry: usize) {
        self.entry = entry;
    }

    fn post(&mut self, token: u32) {
        self.conversations[self.entry].post(token);
    }

    fn guide(&mut self, entry: usize, mask: Option<&Mask>) -> Result<(), ExecuteError> {
        let number = self.bind(entry, mask.is_some());
        if let (Some(mask), Some(number)) = (mask, number) {
            self.scratch.send_mask(entry, number, mask)?;
        }
        Ok(())
    }

    /// It is sent when it has been made: beside a step, or before what cannot be repeated.
    fn guide_later(&mut self, entry: usize, mask: Promise) -> Result<(), ExecuteError> {
        if let Some(number) = self.bind(entry, true) {
            self.late.push(entry, number, mask);
        }
        Ok(())
    }

    fn waits(&self, entry: usize) -> bool {
        self.conversations[entry].waits
    }

    fn scored(&self, entry: usize) -> &[Scored] {
        &self.conversations[entry].scored
    }

    fn state_of(&self, entry: usize) -> StepState {
        self.conversations[entry].state
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
        if self.left.is_none() {
            self.forget_launched();
        }
        let (entry, rows) = (self.entry, tokens.len());
        let vocabulary = self.vocabulary;
        if !self.has_started(tape, tokens) {
            self.started = None;
            self.send_prompt(tape, tokens)?;
        }
        let key = self.key(tape);
        let ran = if self.is_recorded(tape) {
            let (mut step, graph, prompts) = self.split(tape);
            let ran = prompts.run(key, &mut step, graph.life_mut());
            ran.map(|()| Pass::Ended)
        } else {
            self.eager_until(tape, tokens, preempts)
        };
        let pass = ran.inspect_err(|_| self.lose(&[entry]))?;
        if pass == Pass::Preempted {
            return Ok(pass);
        }
        match tape.ending {
            Ending::Token => {
                self.mark(0).inspect_err(|_| self.lose(&[entry]))?;
                let launched = Launched::new(Ran::Eagerly, &[entry]);
                self.pending.push_back(launched);
                self.take_tokens(rows, &[], &[entry])?;
            }
            Ending::Kv => self.conversations[entry].read(rows),
            Ending::Logits => {
                self.conversations[entry].read(rows);
                self.logits.resize(rows * vocabulary, 0.0);
                self.buffers
                    .read_logits(tape, &mut self.logits, &mut self.stream)?;
            }
        }
        Ok(pass)
    }

    fn start(&mut self, tape: &Tape, tokens: &[u32]) -> Result<(), ExecuteError> {
        let waits = self.pending.is_empty() || self.is_partial() || self.is_launched(self.entry);
        if waits || self.is_recorded(tape) {
            return Ok(());
        }
        self.send_prompt(tape, tokens)?;
        let (entry, begun) = (self.entry, self.begin_layers(tape, tokens));
        Ok(begun.inspect_err(|_| self.lose(&[entry]))?)
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
            self.fits(*entry, rows)?;
            if rows > 1 {
                // Such a step cannot be repeated either.
                self.settle_mask(*entry)?;
            }
        }
        // A step that was launched ahead serves whoever it is of; who is not asked for any more stays where it was. What is not
        // whole is gone on with as it began.
        let serves = |step: &Launched| {
            let of = step.entries();
            of == entries || step.is_whole() && entries.iter().all(|entry| of.contains(entry))
        };
        if !forced.is_empty() || !self.ahead().is_none_or(serves) {
            self.forget_launched();
        }
        self.resume_step(tape)?;
        let idle = self.idle_since.take().filter(|_| self.pending.is_empty());
        self.times.idle = idle.map_or(Duration::ZERO, |since| since.elapsed());
        if self.pending.is_empty() {
            let cut = leaves.is_some() && forced.is_empty();
            self.launch(tape, entries, forced, cut)?;
        }
        if self.go_on(tape, leaves)? == Pass::Preempted {
            return Ok(Pass::Preempted);
        }
        // One whose token is not taken now goes on from where it stood, which the device is told with the step after that.
        let goes_on = |entry: &usize| {
            let steps = entries.contains(entry);
            let fits = self.fits(*entry, 1 + usize::from(steps)).is_ok();
            fits && (steps || !self.is_launched(*entry))
        };
        let behind = behind.filter(|one| forced.is_empty() && one.entries.iter().all(goes_on));
        if let Some(behind) = behind.filter(|_| self.pending.len() < AHEAD) {
            self.launch_behind(behind)?;
        }
        self.send_late(None)?;
        self.take_tokens(1, forced, entries)?;
        Ok(Pass::Ended)
    }

    fn leave_step(&mut self, tape: &Tape) -> Result<bool, ExecuteError> {
        if self.pending.len() == 1 && self.is_partial() {
            self.leave(tape)?;
        }
        Ok(self.is_left())
    }

    fn is_left(&self) -> bool {
        self.left.is_some()
    }

    fn finish(&mut self) -> Result<(), ExecuteError> {
        Ok(self.stream.synchronize()?)
    }

    fn is_ahead(&self) -> bool {
        self.ahead().is_some()
    }

    fn abandon_ahead(&mut self) -> Result<(), ExecuteError> {
        Ok(self.drain()?)
    }

    fn time_step(&mut self, tape: &Tape) -> Result<Option<Vec<Option<Span>>>, ExecuteError> {
        if self.is_ahead() {
            self.step(tape, false)?;
            return Ok(None);
        }
        let entry = self.entry;
        self.fits(entry, 1)?;
        self.started = None;
        let timestamps = self.addresses_in_passing(tape)?;
        let idle = self.idle_since.take();
        self.times.idle = idle.map_or(Duration::ZERO, |since| since.elapsed());
        self.command(tape, &[entry], &[]);
        let (mut step, graph, _) = self.split(tape);
        step.timestamps = Some(timestamps);
        let ran = graph.step_eagerly(&mut step);
        let ran = ran.inspect_err(|_| self.lose(&[entry]))?;
        self.mark(0).inspect_err(|_| self.lose(&[entry]))?;
        self.pending.push_back(Launched::new(ran, &[entry]));
        self.take_tokens(1, &[], &[entry])?;
        let Some(timestamps) = &mut self.in_passing else {
            return Ok(None);
        };
        let spans = timestamps.read(&mut self.stream)?;
        timestamps.clear(&mut self.stream)?;
        Ok(Some(spans))
    }

    fn measure(&mut self, step: &Tape, timed: Timed) -> Result<(), ExecuteError> {
        self.drain()?;
        let mut timestamps = Timestamps::new(&self.context, step.ops.len(), timed)?;
        timestamps.clear(&mut self.stream)?;
        self.timestamps = Some(timestamps);
        // The addresses of the timestamps are new ones.
        self.moves += 1;
        Ok(())
    }

    fn take_spans(&mut self) -> Result<Vec<Option<Span>>, ExecuteError> {
        self.drain()?;
        let Some(timestamps) = &mut self.timestamps else {
            return Ok(Vec::new());
        };
        let spans = timestamps.read(&mut self.stream)?;
        timestamps.clear(&mut self.stream)?;
        Ok(spans)
    }

    fn logits(&self, _: &Tape, row: usize) -> &[f32] {
        self.logits
            .get(row * self.vocabulary..)
            .and_then(|rest| rest.get(..self.vocabulary))
            .unwrap_or(&[])
    }

    fn left_logits(&mut self, tape: &Tape) -> Result<Vec<f32>, ExecuteError> {
        let mut logits = vec![0.0; tape.scored_rows() * self.vocabulary];
        self.buffers
            .read_logits(tape, &mut logits, &mut self.stream)?;
        Ok(logits)
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

    /// Its context becomes current on this thread.
    fn settle(&self) -> Result<(), ExecuteError> {
        Ok(self.context.make_current()?)
    }

    fn record(&mut self, tape: &Tape, entry: usize) -> Result<(), ExecuteError> {
        self.drain()?;
        self.give_weights()?;
        self.entry = entry;
        let key = self.key(tape);
        let (mut prompt, graph, prompts) = self.split(tape);
        Ok(prompts.record(key, &mut prompt, graph.life_mut())?)
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
        let mut names = Vec::new();
        let step = self.split(tape).0;
        // It launches nothing, so nothing can be refused.
        let _ = step.work.run(
            tape,
            0..tape.ops.len(),
            &mut LaunchQueue::naming(&mut names),
        );
        names
    }

    fn graph_dot(&self) -> Result<String, ExecuteError> {
        let segments: Result<String, _> = self.graph.execs().map(Graph::dot).collect();
        Ok(segments?)
    }

    fn faults(&self) -> &Faults {
        self.context.faults()
    }
}

//! How runs are launched: what a device is told of their rows, how many wait for their tokens, and how these are taken.

use std::time::Instant;

use super::timestamps::{TimestampAddresses, Timestamps};
use super::{AHEAD, Cuda, Error, HALVES_AHEAD, HALVES_BEHIND, Launched, narrow, state};
use crate::executor::{Behind, Pass, Preempts, Rows};
use crate::graph::{Ran, Stepper as _};
use crate::sampler::Scored;
use crate::tape::{Ending, ExecuteError, Tape, Timed};

impl Cuda {
    /// Nobody wants the tokens of steps that were launched ahead, or left; whatever is launched next runs after them. One that is
    /// not whole has no token.
    pub(super) fn forget_launched(&mut self) {
        if self.is_partial() {
            // It may not have read its commands, which lie where those of another are going to. If that fails, so does whatever is
            // launched next.
            let _ = self.stream.synchronize();
        }
        let whole = self.pending.iter().filter(|step| step.is_whole()).count();
        self.sequence = self.sequence.wrapping_add(narrow(whole));
        for step in self.pending.drain(..).chain(self.left.take()) {
            for entry in step.entries() {
                self.conversations[*entry].moved();
            }
        }
    }

    /// The same of an entry: it is to begin from elsewhere than steps of it that were launched ahead did.
    pub(super) fn forget_launched_of(&mut self, entry: usize) {
        if self.is_launched(entry) {
            self.forget_launched();
        }
    }

    /// Whether a step was launched of an entry whose token has not been taken.
    pub(super) fn is_launched(&self, entry: usize) -> bool {
        let mut steps = self.pending.iter().chain(&self.left);
        steps.any(|step| step.entries().contains(&entry))
    }

    /// Waits for steps that were launched ahead.
    pub(super) fn drain(&mut self) -> Result<(), Error> {
        if self.ahead().is_some() {
            self.stream.synchronize()?;
            self.forget_launched();
        }
        Ok(())
    }

    /// Has the rows of the next step be those of `entries`.
    pub(super) fn command(&mut self, tape: &Tape, entries: &[usize], forced: &[u32]) {
        let ahead = narrow(self.pending.len());
        let sequence = self.sequence.wrapping_add(ahead + 1);
        let steps = &mut self.scratch.steps;
        self.listed.commands(
            (entries, forced, tape.rows),
            sequence,
            &mut self.conversations,
            |row, command| steps.post(row, command),
        );
    }

    /// Launches a step of these entries behind those that are ahead, or the first part of one that is `cut`.
    pub(super) fn launch(
        &mut self,
        tape: &Tape,
        entries: &[usize],
        forced: &[u32],
        cut: bool,
    ) -> Result<(), Error> {
        if self.pending.is_empty() {
            self.pace.begins(Instant::now());
        }
        // It overwrites what a prompt has left in the buffers.
        self.started = None;
        self.command(tape, entries, forced);
        let (mut step, graph, _) = self.split(tape);
        let begun = graph.begin(&mut step, cut);
        let (ran, left) = begun.inspect_err(|_| self.lose(entries))?;
        let at = self.pending.len();
        self.mark(at).inspect_err(|_| self.lose(entries))?;
        self.pending.push_back(Launched::of(ran, entries, left));
        Ok(())
    }

    /// Launches a step behind the one that runs, shortly before that ends, unless something preempts it by then: as much of it as
    /// runs until the host comes back with the tokens of the one before.
    pub(super) fn launch_behind(
        &mut self,
        Behind {
            tape,
            entries,
            cut,
            preempts,
        }: Behind<'_>,
    ) -> Result<(), Error> {
        if let Some(preempts) = preempts {
            let rows = self.pending.front().map_or(0, |step| step.count);
            self.wait_until(self.pace.due(rows, 1.0))?;
            if preempts() {
                return Ok(());
            }
        }
        let at = self.pending.len();
        self.launch(tape, entries, &[], cut)?;
        while let Some(step) = self.pending.get(at).filter(|step| !step.is_whole())
            && !self.pace.lasts(step.count, step.fraction())
        {
            self.launch_part(tape, at)?;
        }
        let next = self.sequence.wrapping_add(1);
        self.pace
            .launched(self.scratch.tokens.peek(next, 0).is_some());
        Ok(())
    }

    /// Waits until something is to be launched behind what runs, and sends masks meanwhile; `None`: at once.
    pub(super) fn wait_until(&mut self, due: Option<Instant>) -> Result<(), Error> {
        if let Some(due) = due {
            let begun = Instant::now();
            self.send_late(Some(due))?;
            // A thread that sleeps comes a little late.
            let left = due.saturating_duration_since(Instant::now());
            std::thread::sleep(left.saturating_sub(self.options.spin));
            while Instant::now() < due {
                std::hint::spin_loop();
            }
            self.pace.waited += begun.elapsed();
        }
        Ok(())
    }

    /// A launch has failed. What came before it may have run to its end all the same, and left a token that nobody takes:
    /// its number is not used again, and what the device knows of its rows is not known any more.
    pub(super) fn lose(&mut self, entries: &[usize]) {
        // If that fails, so does whatever is launched next.
        let _ = self.stream.synchronize();
        self.forget_launched();
        self.started = None;
        let next = self.sequence.wrapping_add(1);
        if self.scratch.tokens.peek(next, 0).is_some() {
            self.sequence = next;
        }
        self.listed.forget();
        let each = self.pages.each();
        for entry in entries {
            self.conversations[*entry].moved();
            // What said so may not have been read.
            self.conversations[*entry].seated(0..each);
        }
    }

    /// Whether a prompt is recorded, and so runs as a whole.
    pub(super) fn is_recorded(&self, tape: &Tape) -> bool {
        tape.ending != Ending::Logits && self.prompts.serve(self.graph.life(), tape.rows)
    }

    fn rows(&self, tape: &Tape, tokens: &[u32]) -> Rows {
        Rows {
            entry: self.entry,
            position: self.conversations[self.entry].state.position,
            tokens: tokens.to_vec(),
            ending: tape.ending,
        }
    }

    /// Whether these rows were begun, and nothing has run since.
    pub(super) fn has_started(&self, tape: &Tape, tokens: &[u32]) -> bool {
        let begun = self.started.as_ref();
        begun.is_some_and(|(begun, _)| *begun == self.rows(tape, tokens))
    }

    /// Sends what the device is to know of a prompt that runs in the entry whose turn it is.
    pub(super) fn send_prompt(&mut self, tape: &Tape, tokens: &[u32]) -> Result<(), ExecuteError> {
        let (entry, rows) = (self.entry, tokens.len());
        self.fits(entry, rows)?;
        let vocabulary = self.vocabulary;
        if let Some(&token) = tokens.iter().find(|token| **token as usize >= vocabulary) {
            return Err(ExecuteError::Token { token, vocabulary });
        }
        if tape.ending == Ending::Token {
            // A prompt cannot be repeated as a step is: its mask is there before it begins.
            self.settle_mask(entry)?;
        }
        let ahead = narrow(self.pending.len());
        let sequence = self.sequence.wrapping_add(ahead + 1);
        let command = self.conversations[entry].prompt(entry, rows, sequence);
        let scratch = &mut self.scratch;
        let to = (&mut scratch.arena, scratch.prompt);
        let sent = scratch.prompts.send(&command, tokens, to, &mut self.stream);
        // Its command says once what has changed.
        Ok(sent.inspect_err(|_| self.lose(&[entry]))?)
    }

    /// Where a prompt goes on: what was left of it is where its layers find it. Its command has been sent, and is obeyed again
    /// with its embeddings: another's has been where it was.
    fn resume(&mut self, tape: &Tape, rows: &Rows) -> Result<usize, Error> {
        let Some((place, left)) = self.preempted.take(rows) else {
            return Ok(0);
        };
        self.split(tape).0.eager(0..1)?;
        self.buffers
            .copy_residual(tape, (place, true), &mut self.stream)?;
        Ok(left)
    }

    /// Launches as much of a prompt's layers as may be queued behind steps, from where it was left on.
    pub(super) fn begin_layers(&mut self, tape: &Tape, tokens: &[u32]) -> Result<(), Error> {
        let rows = self.rows(tape, tokens);
        let from = self.resume(tape, &rows)?;
        let pauses = tape.pauses().filter(|pause| *pause > from);
        let until = pauses.take(HALVES_BEHIND).last().unwrap_or(from);
        self.split(tape).0.eager(from..until)?;
        self.started = Some((rows, until));
        Ok(())
    }

    /// Launches a prompt's layers from where it stands on. Where it may be left, little of it is queued at once.
    pub(super) fn eager_until(
        &mut self,
        tape: &Tape,
        tokens: &[u32],
        mut preempts: Preempts<'_>,
    ) -> Result<Pass, Error> {
        let rows = self.rows(tape, tokens);
        let begun = self.started.take().filter(|(begun, _)| *begun == rows);
        let all = tape.ops.len();
        let mut next = match begun {
            Some((_, next)) => next,
            None => self.resume(tape, &rows)?,
        };
        let may = preempts.is_some();
        let pauses = tape.pauses();
        let pauses = pauses.filter(|pause| may && (next + 1..all).contains(pause));
        for (half, pause) in pauses.collect::<Vec<_>>().into_iter().enumerate() {
            self.split(tape).0.eager(next..pause)?;
            next = pause;
            self.halves[half % HALVES_AHEAD].record(&mut self.stream)?;
            if half + 1 >= HALVES_AHEAD {
                self.halves[(half + 1) % HALVES_AHEAD].synchronize()?;
            }
            if let Some(place) = self.preempted.place()
                && preempts.as_mut().is_some_and(|preempts| preempts())
            {
                self.buffers
                    .copy_residual(tape, (place, false), &mut self.stream)?;
                self.preempted.keep(place, rows, next);
                return Ok(Pass::Preempted);
            }
        }
        self.split(tape).0.eager(next..all)?;
        Ok(Pass::Ended)
    }

    /// Marks the end of what was launched of the step that is, or comes to be, at this place of those that are pending.
    pub(super) fn mark(&mut self, at: usize) -> Result<(), Error> {
        let place = self.place(at);
        self.ends[place].record(&mut self.stream)
    }

    pub(super) fn place(&self, at: usize) -> usize {
        (self.sequence as usize + at) % AHEAD
    }

    pub(super) fn fits(&self, entry: usize, rows: usize) -> Result<(), ExecuteError> {
        let position = self.conversations[entry].state.position;
        let context = self.pages.capacity(entry);
        if rows > 0 && position + rows <= context {
            return Ok(());
        }
        Err(ExecuteError::Context {
            rows,
            position,
            context,
        })
    }

    /// Waits for the oldest step that was launched, of `rows` rows of each conversation; rows of one that comes again end
    /// with `forced` tokens, but for its last. Those that are not `wanted` stay where they stood.
    pub(super) fn take_tokens(
        &mut self,
        rows: usize,
        forced: &[u32],
        wanted: &[usize],
    ) -> Result<(), ExecuteError> {
        let Some(launched) = self.pending.front().copied() else {
            return Ok(());
        };
        let entries = launched.entries();
        let end = &self.ends[self.place(0)];
        let spin = self.times.spin(self.options.spin);
        let begun = Instant::now();
        let next = self.sequence.wrapping_add(1);
        let block = || end.synchronize();
        let tokens = self.scratch.tokens.wait(next, entries.len(), spin, block);
        // They will never come, nor will those of the step behind it: whoever asks again is not to wait for them.
        let tokens = tokens.inspect_err(|_| self.lose(entries))?;
        let now = Instant::now();
        self.times.waited = now - begun + std::mem::take(&mut self.pace.waited);
        self.pace.ended(entries.len(), now);
        self.sequence = next;
        if launched.ran == Ran::Replayed {
            self.graph.life_mut().arrived();
        }
        let mut failed = None;
        let mut forced = forced.iter();
        for (row, (entry, token)) in entries.iter().zip(tokens).enumerate() {
            let conversation = &mut self.conversations[*entry];
            conversation.waits = false;
            if !wanted.contains(entry) {
                conversation.moved();
                continue;
            }
            let position = conversation.state.position + rows;
            if entries[row + 1..].contains(entry) {
                let given = forced.next().copied().unwrap_or_default();
                conversation.goes_on(given, position);
                continue;
            }
            match token {
                // The device has left it as it was.
                state::NOT_READY => conversation.waits = true,
                state::NOT_FINITE => {
                    conversation.moved();
                    let position = position - 1;
                    failed.get_or_insert(ExecuteError::NonFinite { position });
                }
                _ => {
                    conversation.goes_on(token, position);
                    conversation.masked();
                    if conversation.is_scored() {
                        let told = self.scratch.scores.of(next, row);
                        let told = told.map(|(token, logprob)| Scored { token, logprob });
                        conversation.scored.clear();
                        conversation.scored.extend(told);
                        if let Some((_, best)) = conversation.scored.split_first_mut() {
                            best.sort_unstable_by(Scored::order);
                        }
                    }
                }
            }
        }
        self.pending.pop_front();
        self.idle_since = self.pending.is_empty().then(Instant::now);
        failed.map_or(Ok(()), Err)
    }

    /// Where a step that is timed in passing leaves its timestamps: memory that is taken when somebody first asks, and that no graph knows of.
    pub(super) fn addresses_in_passing(
        &mut self,
        tape: &Tape,
    ) -> Result<TimestampAddresses, Error> {
        if self.in_passing.is_none() {
            let mut timestamps = Timestamps::new(&self.context, tape.ops.len(), Timed::Operations)?;
            timestamps.clear(&mut self.stream)?;
            self.in_passing = Some(timestamps);
        }
        let timestamps = self.in_passing.as_ref().map(Timestamps::addresses);
        timestamps.ok_or(Error::Bounds { bytes: 0 })
    }
}

//! Launches steps and prompts, sends their commands, and takes their tokens.

use std::time::Instant;

use super::narrow::narrow;
use super::timestamps::{TimestampAddresses, Timestamps};
use super::{AHEAD, Cuda, HALVES_AHEAD, HALVES_BEHIND, Launched, state};
use crate::device::Error;
use crate::executor::{Behind, ExecuteError, Given, Pass, PreemptPrompt, PromptRows, Timed};
use crate::graph::{Ran, Stepper as _};
use crate::sampler::Scored;
use crate::tape::{Ending, Tape};

impl Cuda {
    /// Discards the tokens of steps in flight and of the preempted step. Later launches run after them. A step that was launched
    /// in part only has no token.
    pub(super) fn discard_in_flight(&mut self) {
        if self.is_partial() {
            // The next command may overwrite one that has not been read. An error here shows at the next launch, too.
            let _ = self.stream.synchronize();
        }
        let whole = self.pending.iter().filter(|step| step.is_whole()).count();
        self.sequence = self.sequence.wrapping_add(narrow(whole));
        for step in self.pending.drain(..).chain(self.preempted_step.take()) {
            for slot in step.slots() {
                self.conversations[*slot].moved();
            }
        }
    }

    /// Discards steps in flight if one has a row for a slot, whose state has changed.
    pub(super) fn discard_in_flight_of(&mut self, slot: usize) {
        if self.is_launched(slot) {
            self.discard_in_flight();
        }
    }

    /// Whether a step in flight, or the preempted one, has a row for a slot.
    pub(super) fn is_launched(&self, slot: usize) -> bool {
        let mut steps = self.pending.iter().chain(&self.preempted_step);
        steps.any(|step| step.slots().contains(&slot))
    }

    /// Waits for steps in flight, and discards their tokens.
    pub(super) fn drain(&mut self) -> Result<(), Error> {
        if self.ahead().is_some() {
            self.stream.synchronize()?;
            self.discard_in_flight();
        }
        Ok(())
    }

    /// Sends the commands by which the rows of the next step are those of `slots`.
    pub(super) fn command(&mut self, tape: &Tape, slots: &[usize], given: &[Given]) {
        let ahead = narrow(self.pending.len());
        let sequence = self.sequence.wrapping_add(ahead + 1);
        let steps = &mut self.scratch.steps;
        self.listed.commands(
            (slots, given, tape.rows),
            sequence,
            &mut self.conversations,
            |row, command| steps.post(row, command),
        );
    }

    /// Launches a step of these slots after those in flight. With `cut`, only its first part is launched.
    pub(super) fn launch(
        &mut self,
        tape: &Tape,
        slots: &[usize],
        given: &[Given],
        cut: bool,
    ) -> Result<(), Error> {
        if self.pending.is_empty() {
            self.pace.begins(Instant::now());
        }
        // The step overwrites the buffers of a started prompt.
        self.started = None;
        self.command(tape, slots, given);
        let (mut step, graph, _) = self.split(tape);
        let begun = graph.begin(&mut step, cut);
        let (ran, rest) = begun.inspect_err(|_| self.lose(slots))?;
        let at = self.pending.len();
        self.mark(at).inspect_err(|_| self.lose(slots))?;
        self.pending.push_back(Launched::of(ran, slots, rest));
        Ok(())
    }

    /// Launches a step shortly before the running one ends, unless `preempts` returns true by then. Parts are launched that run
    /// until the host has taken the tokens of the running step.
    pub(super) fn launch_behind(
        &mut self,
        Behind {
            tape,
            slots,
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
        self.launch(tape, slots, &[], cut)?;
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

    /// Waits until the next launch is due, and sends masks meanwhile. `None` is due at once.
    pub(super) fn wait_until(&mut self, due: Option<Instant>) -> Result<(), Error> {
        if let Some(due) = due {
            let begun = Instant::now();
            self.send_late(Some(due))?;
            // A sleeping thread wakes a little late.
            let remaining = due.saturating_duration_since(Instant::now());
            std::thread::sleep(remaining.saturating_sub(self.options.spin));
            while Instant::now() < due {
                std::hint::spin_loop();
            }
            self.pace.waited += begun.elapsed();
        }
        Ok(())
    }

    /// Recovers after a failed launch. Earlier work may have finished and written a token: its number is not used again, and
    /// the next commands assume that the device knows nothing about these rows.
    pub(super) fn lose(&mut self, slots: &[usize]) {
        // An error here shows at the next launch, too.
        let _ = self.stream.synchronize();
        self.discard_in_flight();
        self.started = None;
        let next = self.sequence.wrapping_add(1);
        if self.scratch.tokens.peek(next, 0).is_some() {
            self.sequence = next;
        }
        self.listed.clear();
        let each = self.pages.each();
        for slot in slots {
            self.conversations[*slot].moved();
            // The command with the page table's changes may not have been read.
            self.conversations[*slot].pages_changed(0..each);
        }
    }

    /// Whether a prompt is recorded, and so cannot be preempted.
    pub(super) fn is_recorded(&self, tape: &Tape) -> bool {
        tape.ending != Ending::Logits && self.base.prompts.serve(self.base.graph.life(), tape.rows)
    }

    fn rows(&self, tape: &Tape, tokens: &[u32]) -> PromptRows {
        PromptRows {
            slot: self.slot,
            position: self.conversations[self.slot].state.position,
            tokens: tokens.to_vec(),
            ending: tape.ending,
        }
    }

    /// Whether the last launch started these rows.
    pub(super) fn has_started(&self, tape: &Tape, tokens: &[u32]) -> bool {
        let begun = self.started.as_ref();
        begun.is_some_and(|(begun, _)| *begun == self.rows(tape, tokens))
    }

    /// Sends the command and the tokens of a prompt in the active slot.
    pub(super) fn send_prompt(&mut self, tape: &Tape, tokens: &[u32]) -> Result<(), ExecuteError> {
        let (slot, rows) = (self.slot, tokens.len());
        self.fits(slot, rows)?;
        let vocabulary = self.vocabulary;
        if let Some(&token) = tokens.iter().find(|token| **token as usize >= vocabulary) {
            return Err(ExecuteError::Token { token, vocabulary });
        }
        if tape.ending == Ending::Token {
            // Unlike a step, a prompt cannot be repeated, so it starts after its mask has arrived.
            self.settle_mask(slot)?;
        }
        let ahead = narrow(self.pending.len());
        let sequence = self.sequence.wrapping_add(ahead + 1);
        let position = self.conversations[slot].state.position;
        let spare = self.reserve_state(slot, position + rows)?;
        let command = self.conversations[slot].prompt(slot, (rows, spare), sequence);
        let scratch = &mut self.scratch;
        let to = (&mut scratch.arena, scratch.prompt);
        let sent = scratch.prompts.send(&command, tokens, to, &mut self.stream);
        // The command contains changes that no later command repeats.
        Ok(sent.inspect_err(|_| self.lose(&[slot]))?)
    }

    /// Restores the carried buffers of a preempted prompt, and returns its first operation that has not run.
    ///
    /// The embeddings run again, because they apply the prompt's command, and another command has replaced it meanwhile.
    fn resume(&mut self, tape: &Tape, rows: &PromptRows) -> Result<usize, Error> {
        let Some((place, next)) = self.base.preempted.take(rows) else {
            return Ok(0);
        };
        self.split(tape).0.eager(0..1)?;
        self.buffers
            .copy_carried(tape, (place, true), &mut self.stream)?;
        Ok(next)
    }

    /// Launches the layers of a prompt that may be queued after steps in flight.
    pub(super) fn begin_layers(&mut self, tape: &Tape, tokens: &[u32]) -> Result<(), Error> {
        let rows = self.rows(tape, tokens);
        let from = self.resume(tape, &rows)?;
        let pauses = tape.pauses().filter(|pause| *pause > from);
        let until = pauses.take(HALVES_BEHIND).last().unwrap_or(from);
        self.split(tape).0.eager(from..until)?;
        self.started = Some((rows, until));
        Ok(())
    }

    /// Launches the remaining layers of a prompt. If it can be preempted, few of them are queued at the same time.
    pub(super) fn eager_until(
        &mut self,
        tape: &Tape,
        tokens: &[u32],
        mut preempts: PreemptPrompt<'_>,
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
            if let Some(place) = self.base.preempted.place()
                && preempts.as_mut().is_some_and(|preempts| preempts())
            {
                self.buffers
                    .copy_carried(tape, (place, false), &mut self.stream)?;
                self.base.preempted.keep(place, rows, next);
                return Ok(Pass::Preempted);
            }
        }
        self.split(tape).0.eager(next..all)?;
        Ok(Pass::Ended)
    }

    /// Takes what a prompt of `rows` rows ends with, after its last layer has been launched.
    pub(super) fn end_prompt(&mut self, tape: &Tape, rows: usize) -> Result<(), ExecuteError> {
        let slot = self.slot;
        match tape.ending {
            Ending::Token => {
                self.mark(0).inspect_err(|_| self.lose(&[slot]))?;
                let launched = Launched::new(Ran::Eagerly, &[slot]);
                self.pending.push_back(launched);
                let before = self.conversations[slot].state.position;
                self.take_tokens(rows, &[], &[slot])?;
                if self.conversations[slot].state.position > before {
                    self.swap_state(slot);
                }
            }
            Ending::Kv => {
                self.conversations[slot].prefilled(rows);
                self.swap_state(slot);
            }
            Ending::Logits => {
                self.conversations[slot].prefilled(rows);
                self.swap_state(slot);
                self.logits.resize(rows * self.vocabulary, 0.0);
                self.buffers
                    .read_logits(tape, &mut self.logits, &mut self.stream)?;
            }
        }
        Ok(())
    }

    /// Records an event after the launched parts of the step at index `at` of the pending ones.
    pub(super) fn mark(&mut self, at: usize) -> Result<(), Error> {
        let place = self.place(at);
        self.ends[place].record(&mut self.stream)
    }

    pub(super) fn place(&self, at: usize) -> usize {
        (self.sequence as usize + at) % AHEAD
    }

    /// Checks that a slot has a state and pages for `rows` more positions. Every launch of a slot is preceded by this.
    pub(super) fn fits(&self, slot: usize, rows: usize) -> Result<(), ExecuteError> {
        if let Some(states) = &self.states {
            states.places.own(slot)?;
        }
        let position = self.conversations[slot].state.position;
        let context = self.pages.capacity(slot);
        if rows > 0 && position + rows <= context {
            return Ok(());
        }
        Err(ExecuteError::Context {
            rows,
            position,
            context,
        })
    }

    /// Waits for the oldest step in flight and takes its tokens, each of which advances its slot by `rows` positions.
    ///
    /// If a slot has several rows, all but the first have `given` tokens. Slots that are not `wanted` stay unchanged.
    pub(super) fn take_tokens(
        &mut self,
        rows: usize,
        given: &[Given],
        wanted: &[usize],
    ) -> Result<(), ExecuteError> {
        let Some(launched) = self.pending.front().copied() else {
            return Ok(());
        };
        let slots = launched.slots();
        let end = &self.ends[self.place(0)];
        let spin = self.base.times.spin(self.options.spin);
        let begun = Instant::now();
        let next = self.sequence.wrapping_add(1);
        let block = || end.synchronize();
        let tokens = self.scratch.tokens.wait(next, slots.len(), spin, block);
        // Neither these tokens nor those of the next step will arrive.
        let tokens = tokens.inspect_err(|_| self.lose(slots))?;
        let now = Instant::now();
        self.base.times.waited = now - begun + std::mem::take(&mut self.pace.waited);
        self.pace.ended(slots.len(), now);
        self.sequence = next;
        if launched.ran == Ran::Replayed {
            self.base.graph.life_mut().completed();
        }
        let mut failed = None;
        let mut given = given.iter();
        // The slot whose further guesses are undone.
        let mut undone = None;
        for (row, (slot, token)) in slots.iter().zip(tokens).enumerate() {
            let is_later = row > 0 && slots[row - 1] == *slot;
            let own = if is_later {
                given.next().copied()
            } else {
                None
            };
            let more = slots[row + 1..].contains(slot);
            let guesses = more && given.as_slice().first().is_some_and(|next| next.is_guess());
            let conversation = &mut self.conversations[*slot];
            if !is_later {
                conversation.awaits_mask = false;
            }
            if !wanted.contains(slot) {
                conversation.moved();
                continue;
            }
            if let Some(Given::Forced(token)) = own {
                conversation.advance(token, conversation.state.position + 1);
            }
            let is_guess = own.is_some_and(Given::is_guess);
            let is_chosen = own.is_some_and(|own| conversation.state.token == own.token());
            if is_guess && (undone == Some(*slot) || !is_chosen) {
                undone = Some(*slot);
                continue;
            }
            if more && !guesses {
                continue;
            }
            let position = conversation.state.position + rows;
            if token >= state::NOT_READY {
                undone = Some(*slot);
            }
            match token {
                // A guess that is chosen runs again, as the first of its step.
                state::NOT_READY | state::NOT_FINITE if is_guess => {}
                // The device has not changed the conversation.
                state::NOT_READY => conversation.awaits_mask = true,
                state::NOT_FINITE => {
                    conversation.moved();
                    let position = position - 1;
                    failed.get_or_insert(ExecuteError::NonFinite { position });
                }
                _ => {
                    conversation.advance(token, position);
                    conversation.masked();
                    if guesses || is_guess {
                        // The device's conversation has stayed where it was.
                        conversation.moved();
                    }
                    if conversation.is_scored() {
                        if !is_guess {
                            conversation.scored.clear();
                        }
                        let scores = &self.scratch.scores;
                        conversation.scored.push(ranked(scores.of(next, row)));
                    }
                }
            }
        }
        self.pending.pop_front();
        self.idle_since = self.pending.is_empty().then(Instant::now);
        failed.map_or(Ok(()), Err)
    }

    /// Puts the rows of the next launch where an assistant's pass has them, or back.
    pub(super) fn assist(&mut self, slots: &[usize], on: bool) {
        for slot in slots {
            self.conversations[*slot].assist(on);
        }
    }

    /// Waits for the pass of a head in flight, and takes the token of each row. The slots stay unchanged.
    pub(super) fn take_guesses(&mut self) -> Result<Vec<Option<u32>>, Error> {
        let Some(launched) = self.pending.front().copied() else {
            return Ok(Vec::new());
        };
        let slots = launched.slots();
        let end = &self.ends[self.place(0)];
        let (next, spin) = (self.sequence.wrapping_add(1), self.options.spin);
        let block = || end.synchronize();
        let tokens = self.scratch.tokens.wait(next, slots.len(), spin, block);
        let tokens = tokens.inspect_err(|_| self.lose(slots))?;
        self.sequence = next;
        if launched.ran == Ran::Replayed {
            self.base.graph.life_mut().completed();
        }
        self.pending.pop_front();
        self.idle_since = Some(Instant::now());
        let guessed = slots.iter().zip(tokens).map(|(slot, token)| {
            self.conversations[*slot].moved();
            (token < state::NOT_READY).then_some(token)
        });
        Ok(guessed.collect())
    }

    /// The memory for the timestamps of `time_step`, allocated on first use. No recording contains its address.
    pub(super) fn single_step_addresses(
        &mut self,
        tape: &Tape,
    ) -> Result<TimestampAddresses, Error> {
        if self.single_step_timestamps.is_none() {
            let mut timestamps = Timestamps::new(&self.context, tape.ops.len(), Timed::Operations)?;
            timestamps.clear(&mut self.stream)?;
            self.single_step_timestamps = Some(timestamps);
        }
        let timestamps = self
            .single_step_timestamps
            .as_ref()
            .map(Timestamps::addresses);
        timestamps.ok_or(Error::Bounds { bytes: 0 })
    }
}

/// The chosen token, then the most probable ones in order.
fn ranked(pairs: impl Iterator<Item = (u32, f32)>) -> Vec<Scored> {
    let scored = pairs.map(|(token, logprob)| Scored { token, logprob });
    let mut scored: Vec<_> = scored.collect();
    if let Some((_, best)) = scored.split_first_mut() {
        best.sort_unstable_by(Scored::order);
    }
    scored
}

//! Turns: what begins them, the rows of a prompt, the steps of one conversation or of several, and their tokens.

use std::time::{Duration, Instant};

use super::state;
use super::{AHEAD, Cuda, Error, Launched, narrow};
use crate::graph::{Ran, Stepper as _};
use crate::sampler::{History, Mask, Parameters, Scored};
use crate::tape::{Ending, ExecuteError, Tape};

impl Cuda {
    /// Starts a request at `position` of a region of the cache: what the device is to know of it goes along with what
    /// is launched next.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn begin(
        &mut self,
        (region, position): (usize, usize),
        parameters: Parameters,
        history: &History,
    ) -> Result<(), Error> {
        self.give_weights()?;
        self.forget_launched();
        self.idle_since = None;
        self.region = region;
        self.conversations[region].begin(position, parameters, history);
        Ok(())
    }

    /// From now on the turn in another region of the cache is the one that runs. The caller has taken the tokens of all steps.
    pub fn turn_to(&mut self, region: usize) {
        self.region = region;
    }

    /// Whether a step was launched whose tokens have not been taken.
    #[must_use]
    pub fn is_ahead(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Nobody wants the tokens of steps that were launched ahead; whatever is launched next runs after them.
    pub(super) fn forget_launched(&mut self) {
        self.sequence = self.sequence.wrapping_add(narrow(self.pending.len()));
        for step in self.pending.drain(..) {
            for region in step.regions() {
                self.conversations[*region].moved();
            }
        }
    }

    /// Waits for steps that were launched ahead.
    pub(super) fn drain(&mut self) -> Result<(), Error> {
        if !self.pending.is_empty() {
            self.stream.synchronize()?;
            self.forget_launched();
        }
        Ok(())
    }

    /// The next step starts with `token` rather than the one chosen last.
    pub fn post(&mut self, token: u32) {
        self.conversations[self.region].post(token);
    }

    /// What a conversation may say next; `None`: anything, from now on. Once it has had a mask it waits for another before
    /// each of its tokens: a step that finds none leaves it as it was.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn guide(&mut self, region: usize, mask: Option<&Mask>) -> Result<(), Error> {
        // Steps that were launched ahead begin or end without it.
        if self.conversations[region].is_guided() != mask.is_some() {
            self.forget_launched();
        }
        let number = self.conversations[region].guide(mask.is_some());
        if let (Some(mask), Some(number)) = (mask, number) {
            let (masks, to) = &mut self.scratch.masks;
            let arena = &mut self.scratch.arena;
            masks.send(region, (number, mask.words()), (arena, *to))?;
        }
        Ok(())
    }

    /// Whether the last step left a conversation as it was, for want of its mask.
    #[must_use]
    pub fn waits(&self, region: usize) -> bool {
        self.conversations[region].waits
    }

    /// The token that a conversation chose last, then the most probable ones; empty where nobody asked.
    #[must_use]
    pub fn scored(&self, region: usize) -> &[Scored] {
        &self.conversations[region].scored
    }

    /// Runs a prepared tape of a prompt; fewer `tokens` than it has rows are padded.
    ///
    /// # Errors
    /// A token outside the vocabulary, a position outside the context, logits that are not finite, a
    /// device that fails.
    pub fn run(&mut self, tape: &Tape, tokens: &[u32]) -> Result<(), ExecuteError> {
        self.forget_launched();
        let rows = tokens.len();
        self.fits(self.region, rows)?;
        let vocabulary = self.vocabulary;
        if let Some(&token) = tokens.iter().find(|token| **token as usize >= vocabulary) {
            return Err(ExecuteError::Token { token, vocabulary });
        }
        let sequence = self.sequence.wrapping_add(1);
        let region = self.region;
        if tape.ending == Ending::Token {
            // A prompt cannot be repeated as a step is: its mask is there before it begins.
            self.scratch.masks.0.settle(region)?;
        }
        let command = self.conversations[region].prompt(region, rows, sequence);
        let scratch = &mut self.scratch;
        let to = (&mut scratch.arena, scratch.prompt);
        scratch
            .prompts
            .send(&command, tokens, to, &mut self.stream)?;
        let key = self.key(tape);
        let recorded =
            tape.ending != Ending::Logits && self.prompts.serve(self.graph.life(), tape.rows);
        let (mut step, graph, prompts) = self.split(tape);
        let ran = if recorded {
            prompts.run(key, &mut step, graph.life_mut())
        } else {
            step.eager(0..tape.ops.len())
        };
        ran.inspect_err(|_| self.lose(&[region]))?;
        match tape.ending {
            Ending::Token => {
                self.mark()?;
                let launched = Launched::new(Ran::Eagerly, &[region]);
                self.pending.push_back(launched);
                self.take_tokens(rows, &[], &[region])?;
            }
            Ending::Kv => self.conversations[region].read(rows),
            Ending::Logits => {
                self.conversations[region].read(rows);
                self.logits.resize(rows * vocabulary, 0.0);
                self.slots
                    .read_logits(tape, &mut self.logits, &mut self.stream)?;
            }
        }
        Ok(())
    }

    /// Runs one step of the turn that runs, and with `more` launches the one after it before it waits for this one's
    /// token: the device then has no time to idle. A step that was launched ahead and is not wanted costs its time, no
    /// more.
    ///
    /// # Errors
    /// As `run`.
    pub fn step(&mut self, tape: &Tape, more: bool) -> Result<(), ExecuteError> {
        self.step_rows(tape, &[self.region], &[], more)
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
        more: bool,
    ) -> Result<(), ExecuteError> {
        for region in regions {
            let rows = regions.iter().filter(|other| *other == region).count();
            self.fits(*region, rows)?;
            if rows > 1 {
                // Such a step cannot be repeated either.
                self.scratch.masks.0.settle(*region)?;
            }
        }
        let more = more && forced.is_empty();
        // Steps that were launched ahead serve whoever they are of; who is not asked for any more stays where it was.
        let serves = |step: &Launched| regions.iter().all(|region| step.regions().contains(region));
        if !forced.is_empty() || !self.pending.iter().all(serves) {
            self.forget_launched();
        }
        let idle = self.idle_since.take().filter(|_| self.pending.is_empty());
        self.pace.idle = idle.map_or(Duration::ZERO, |since| since.elapsed());
        let further = |region: &usize| self.fits(*region, 2).is_ok();
        let wanted = if more && regions.iter().all(further) {
            AHEAD
        } else {
            1
        };
        while self.pending.len() < wanted {
            self.command(tape, regions, forced);
            let (mut step, graph, _) = self.split(tape);
            let ran = graph.step(&mut step).inspect_err(|_| self.lose(regions))?;
            self.mark()?;
            self.pending.push_back(Launched::new(ran, regions));
        }
        self.take_tokens(1, forced, regions)
    }

    /// Has the rows of the next step be those of `regions`.
    pub(super) fn command(&mut self, tape: &Tape, regions: &[usize], forced: &[u32]) {
        let ahead = narrow(self.pending.len());
        let sequence = self.sequence.wrapping_add(ahead + 1);
        let steps = &mut self.scratch.steps;
        self.listed.commands(
            (regions, forced, tape.rows),
            sequence,
            &mut self.conversations,
            |row, command| steps.post(row, command),
        );
    }

    /// A launch has failed. What came before it may have run to its end all the same, and left a token that nobody takes:
    /// its number is not used again, and what the device knows of its rows is not known any more.
    pub(super) fn lose(&mut self, regions: &[usize]) {
        // If that fails, so does whatever is launched next.
        let _ = self.stream.synchronize();
        self.forget_launched();
        let next = self.sequence.wrapping_add(1);
        if self.scratch.tokens.peek(next, 0).is_some() {
            self.sequence = next;
        }
        self.listed.forget();
        let each = self.pages.each();
        for region in regions {
            self.conversations[*region].moved();
            // What said so may not have been read.
            self.conversations[*region].seated(0..each);
        }
    }

    /// Marks the end of the step that was launched last.
    pub(super) fn mark(&mut self) -> Result<(), Error> {
        let number = self.sequence as usize + self.pending.len();
        self.ends[number % AHEAD].record(&mut self.stream)
    }

    pub(super) fn fits(&self, region: usize, rows: usize) -> Result<(), ExecuteError> {
        let position = self.conversations[region].state.position;
        let context = self.pages.capacity(region);
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
        let regions = launched.regions();
        let end = &self.ends[self.sequence as usize % AHEAD];
        let spin = self.pace.spin(self.options.spin);
        let begun = Instant::now();
        let next = self.sequence.wrapping_add(1);
        let block = || end.synchronize();
        let tokens = self.scratch.tokens.wait(next, regions.len(), spin, block)?;
        self.pace.waited = begun.elapsed();
        self.sequence = next;
        if launched.ran == Ran::Replayed {
            self.graph.life_mut().arrived();
        }
        let mut failed = None;
        let mut forced = forced.iter();
        for (row, (region, token)) in regions.iter().zip(tokens).enumerate() {
            let conversation = &mut self.conversations[*region];
            conversation.waits = false;
            if !wanted.contains(region) {
                conversation.moved();
                continue;
            }
            let position = conversation.state.position + rows;
            if regions[row + 1..].contains(region) {
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
}

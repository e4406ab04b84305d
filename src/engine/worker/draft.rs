//! The draft model: for each slot of the model a sequence of its own, which follows the conversation in that slot.
//!
//! A sequence is known by its tokens. What the conversation lacks of it is overwritten, and what it lacks of the conversation is
//! read. When it guesses, and how many tokens, is decided in `drafting`.

use std::time::{Duration, Instant};

use crate::engine::generation::drafts::Conversation;
use crate::executor::Pass;
use crate::graph::{Event, Mode};
use crate::guess::{Pace, StepCosts, Tried};
use crate::kv::Wanted;
use crate::runner::{MemoryUse, RunError, Runner, Trial};
use crate::sampler::Parameters;
use crate::tape::Ending;

/// The tokens that the draft model may lack when it is asked for guesses. A longer part is read before, in slices.
const READ_AT_ONCE: usize = 16;

/// The draft model, and the sequences of the model's slots.
#[derive(Debug)]
pub(super) struct Draft {
    runner: Runner,
    /// By slot of the model.
    seats: Vec<Seat>,
    costs: StepCosts,
    pace: Pace,
}

/// The sequence of a slot of the model.
#[derive(Debug, Default)]
enum Seat {
    /// It has not begun.
    #[default]
    Free,
    /// The draft model cannot follow this conversation.
    Refused,
    Taken(Turn),
}

#[derive(Debug)]
struct Turn {
    /// The slot of the draft model.
    slot: usize,
    tried: Tried,
    /// Whether the executor is beyond the tokens that the sequence has.
    is_beyond: bool,
    /// The rows of a slice that was preempted, and how long it has taken.
    slice: Option<(usize, Duration)>,
}

/// A request for guesses of the conversation in a slot.
pub(super) struct Ask<'a> {
    pub(super) slot: usize,
    pub(super) conversation: Conversation<'a>,
    pub(super) most: usize,
}

impl Draft {
    pub(super) fn new(runner: Runner) -> Self {
        Self {
            runner,
            seats: Vec::new(),
            costs: StepCosts::default(),
            pace: Pace::default(),
        }
    }

    pub(super) fn memory(&self) -> MemoryUse {
        self.runner.memory()
    }

    /// Returns the events of its decode graph since the last call.
    pub(super) fn take_graph_events(&mut self) -> Vec<Event> {
        self.runner.take_graph_events()
    }

    pub(super) fn reset_graph(&mut self) {
        self.runner.reset_graph();
    }

    pub(super) fn set_graph_mode(&mut self, mode: Mode) {
        self.runner.set_graph_mode(mode);
    }

    /// Ends the sequence of a slot. Its pages can be reused by the same user until others need them.
    pub(super) fn leave(&mut self, slot: usize) {
        if let Some(seat) = self.seats.get_mut(slot)
            && let Seat::Taken(turn) = std::mem::take(seat)
        {
            self.runner.leave(turn.slot);
        }
    }

    /// Drops a user's pages, except those of running sequences.
    pub(super) fn erase(&mut self, user: u32) {
        self.runner.erase(user);
    }

    /// Releases the memory that no running sequence needs, except for one of full length.
    pub(super) fn give_back(&mut self) -> Result<(), RunError> {
        self.runner.attach_thread()?;
        self.runner.give_back(self.runner.turns())
    }

    /// Releases the memory that no running sequence needs, and returns its bytes.
    pub(super) fn evict_idle(&mut self) -> Result<u64, RunError> {
        self.runner.attach_thread()?;
        self.runner.evict_idle()
    }

    /// Returns the seconds that a guess of one of several conversations takes.
    #[allow(clippy::cast_precision_loss)] // they are few
    pub(super) fn each(&self, conversations: usize) -> f64 {
        let step = self.costs.time(conversations);
        step.unwrap_or_default() / conversations.max(1) as f64
    }

    /// Returns the seconds that reading a number of tokens takes; `None` before it is known.
    pub(super) fn reading(&self, tokens: usize) -> Option<f64> {
        self.pace.time(tokens)
    }

    /// Returns how many tokens must be read before the draft model can guess; `None` if it cannot follow the conversation.
    pub(super) fn lacks(&self, slot: usize, conversation: Conversation<'_>) -> Option<usize> {
        let held = match self.seats.get(slot) {
            None | Some(Seat::Free) => 0,
            Some(Seat::Refused) => return None,
            Some(Seat::Taken(turn)) => self.runner.len_of(turn.slot),
        };
        let lacks = conversation.len().saturating_sub(held + 1);
        Some(if lacks > READ_AT_ONCE { lacks } else { 0 })
    }

    /// Reads a slice of what a slot's sequence lacks, for about as long as a slice may take, or until `is_over` returns true.
    ///
    /// # Errors
    /// As `Runner::prefill_until`.
    pub(super) fn read(
        &mut self,
        slot: usize,
        conversation: Conversation<'_>,
        (slice, is_over): (Duration, &mut dyn FnMut() -> bool),
    ) -> Result<(), RunError> {
        self.runner.attach_thread()?;
        // Earlier turns may have left nothing to read.
        if self.follow(slot, conversation)? && self.lacks(slot, conversation) != Some(0) {
            self.read_rows(slot, conversation, Some((slice, is_over)))?;
        }
        Ok(())
    }

    /// Has the draft model guess, all conversations together, until `is_over` returns true before a step. Returns the guesses of
    /// each: none for one that it cannot follow.
    ///
    /// # Errors
    /// As `Runner::draft_until`.
    pub(super) fn guess(
        &mut self,
        asked: &[Ask<'_>],
        is_over: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Vec<u32>>, RunError> {
        let mut guesses = vec![Vec::new(); asked.len()];
        if is_over() {
            return Ok(guesses);
        }
        self.runner.attach_thread()?;
        let rows = (self.runner.rows() / asked.len().max(1)).max(1);
        let (mut trials, mut of) = (Vec::new(), Vec::new());
        for (index, ask) in asked.iter().enumerate() {
            if let Some(trial) = self.trial(ask, rows)? {
                trials.push(trial);
                of.push(index);
            }
        }
        let begun = Instant::now();
        let chosen = self.runner.draft_until(&trials, is_over)?;
        let passes = chosen.iter().map(Vec::len).max().unwrap_or(0);
        if let Some(each) = begun
            .elapsed()
            .checked_div(u32::try_from(passes).unwrap_or(u32::MAX))
        {
            self.costs.record(trials.len(), each);
        }
        for (index, chosen) in of.into_iter().zip(chosen) {
            self.note_tried(asked[index].slot, &chosen);
            guesses[index] = chosen;
        }
        Ok(guesses)
    }

    /// Returns what a conversation runs in the next steps, of which the first has `rows` rows for it.
    fn trial(&mut self, ask: &Ask<'_>, rows: usize) -> Result<Option<Trial>, RunError> {
        let Ask {
            slot,
            conversation,
            most,
        } = *ask;
        if !self.follow(slot, conversation)? {
            return Ok(None);
        }
        if self.held(slot) + rows < conversation.len() {
            self.read_rows(slot, conversation, None)?;
        }
        let Some(Seat::Taken(turn)) = self.seats.get(slot) else {
            return Ok(None);
        };
        let tokens = conversation.tokens(self.runner.len_of(turn.slot), usize::MAX);
        let room = (self.runner.capacity_of(turn.slot)).saturating_sub(conversation.len());
        let most = most.min(room);
        let may = (1..=rows).contains(&tokens.len()) && most > 0;
        Ok(may.then_some(Trial {
            slot: turn.slot,
            tokens,
            most,
        }))
    }

    /// Notes what the steps have run of the conversation in a slot.
    fn note_tried(&mut self, slot: usize, chosen: &[u32]) {
        if let (Some(Seat::Taken(turn)), Some((_, ran))) =
            (self.seats.get_mut(slot), chosen.split_last())
        {
            turn.tried.set(ran);
            turn.is_beyond = true;
        }
    }

    /// Returns the tokens that the sequence of a slot has.
    fn held(&self, slot: usize) -> usize {
        match self.seats.get(slot) {
            Some(Seat::Taken(turn)) => self.runner.len_of(turn.slot),
            _ => 0,
        }
    }

    /// Has the sequence of a slot follow a conversation, as far as that needs no run. Returns false if it cannot.
    fn follow(&mut self, slot: usize, conversation: Conversation<'_>) -> Result<bool, RunError> {
        if self.seats.len() <= slot {
            self.seats.resize_with(slot + 1, Seat::default);
        }
        if let Seat::Free = self.seats[slot] {
            self.seats[slot] = self.begin(conversation)?;
        }
        let Seat::Taken(turn) = &mut self.seats[slot] else {
            return Ok(false);
        };
        let held = self.runner.len_of(turn.slot);
        let next = conversation.tokens(held, usize::MAX);
        let is_known = |token: &u32| (*token as usize) < self.runner.vocabulary();
        if !next.iter().all(is_known) {
            self.leave(slot);
            self.seats[slot] = Seat::Refused;
            return Ok(false);
        }
        let right = turn.tried.take_right(&next);
        self.runner.confirm(turn.slot, &right);
        Ok(true)
    }

    /// Begins the sequence of a conversation.
    fn begin(&mut self, conversation: Conversation<'_>) -> Result<Seat, RunError> {
        let context = self.runner.context();
        if conversation.len() + 1 >= context || !conversation.is_within(self.runner.vocabulary()) {
            return Ok(Seat::Refused);
        }
        let positions = context.min(conversation.len() + conversation.left + 1);
        let tokens = conversation.tokens(0, usize::MAX);
        let joined = self.runner.join(
            None,
            conversation.user,
            Wanted::without_answers(&tokens),
            Parameters::default(),
            positions,
        );
        match joined {
            Ok((slot, _)) => Ok(Seat::Taken(Turn {
                slot,
                tried: Tried::default(),
                is_beyond: false,
                slice: None,
            })),
            // Others have the pages.
            Err(RunError::NoPages { .. }) => Ok(Seat::Refused),
            Err(error) => Err(error),
        }
    }

    /// Reads tokens that a sequence lacks: all of them, or those of a slice of a given duration, which its callback can end.
    fn read_rows(
        &mut self,
        slot: usize,
        conversation: Conversation<'_>,
        slice: Option<(Duration, &mut dyn FnMut() -> bool)>,
    ) -> Result<(), RunError> {
        let Some(Seat::Taken(turn)) = self.seats.get_mut(slot) else {
            return Ok(());
        };
        let runner = &mut self.runner;
        let lacks = conversation
            .len()
            .saturating_sub(runner.len_of(turn.slot) + 1);
        let chunk = runner.prefill_chunk().min(lacks);
        let (slice, mut is_over) = slice.unzip();
        let fits = slice.map_or(chunk, |slice| self.pace.rows(slice).min(chunk));
        let (rows, before) = match turn.slice.take() {
            Some(slice) => slice,
            None => (runner.run_length(turn.slot, lacks, fits), Duration::ZERO),
        };
        let tokens = conversation.tokens(runner.len_of(turn.slot), rows);
        runner.turn_to(turn.slot);
        if std::mem::take(&mut turn.is_beyond) {
            runner.retract(turn.slot)?;
        }
        let begun = Instant::now();
        // It may take longer than was expected.
        let until = slice.map(|slice| begun + slice);
        let mut is_due = || {
            until.is_some_and(|until| Instant::now() >= until)
                || is_over.as_mut().is_some_and(|is_over| is_over())
        };
        let pass = runner.prefill_until(&tokens, Ending::Kv, Some(&mut is_due))?;
        runner.finish()?;
        let took = before + begun.elapsed();
        if pass == Pass::Preempted {
            turn.slice = Some((rows, took));
        } else {
            self.pace.record(rows, took);
        }
        Ok(())
    }
}

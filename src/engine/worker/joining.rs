//! How turns join those that are answered, and get pages of the cache.

use std::cmp::Reverse;

use super::{Worker, fail};
use crate::engine::caller::error::EngineError;
use crate::engine::caller::request::{Priority, RequestError};
use crate::engine::generation::state::{Entry, owner};
use crate::engine::intake::fair::May;
use crate::engine::intake::prepare;
use crate::engine::intake::turn::Turn;
use crate::engine::observe::observer;
use crate::engine::observe::progress::Phase;
use crate::engine::schedule::policy::{self, Joins, Standing};
use crate::journal;
use crate::kv::{PAGE, Wanted};
use crate::runner::RunError;
use crate::telemetry::Usage;

impl Worker<'_> {
    /// How a turn could join now.
    fn joins(&self, all: &[Standing], turn: &Turn) -> Joins {
        let rests = |id: &u64| self.entries.iter().find(|entry| entry.id() == *id);
        let room = |leaving: &[u64]| {
            let leaving: Vec<_> = leaving.iter().filter_map(rests).map(Entry::place).collect();
            let positions = turn.positions(self.runner.context());
            self.runner.has_room(turn.wanted(), positions, &leaving)
        };
        let asks = (turn.client.user, turn.options.priority);
        policy::joins(all, self.runner.rows(), asks, room)
    }

    /// Whether a turn's user has no more of the cache with it than one may, beside the others that run. Whoever is urgent is asked
    /// nothing, nor is who has nothing yet.
    fn is_within_share(&self, turn: &Turn) -> bool {
        if turn.options.priority == Priority::Realtime {
            return true;
        }
        let positions = turn.positions(self.runner.context());
        let (theirs, takes) = self.runner.pages_of_user(turn.wanted(), positions);
        let [pages, ..] = self.runner.pages();
        theirs == 0 || theirs + takes <= self.inbox.limits().user_pages(pages)
    }

    /// Whether another turn of its user's reads pages of a beginning that both have: it waits until they can be shared, for no
    /// longer than that one is read on.
    fn awaits_beginning(&self, turn: &Turn) -> bool {
        let (user, wanted) = turn.wanted();
        let held = self.inbox.held();
        let reads = self.entries.iter().filter(|entry| {
            let priority = entry.priority();
            let is_read = priority >= turn.options.priority && !held.rests(priority);
            is_read && entry.turn().client.user == user && !self.is_restoring(entry.id())
        });
        let most = wanted.tokens.len().saturating_sub(1);
        let common = reads.filter_map(|entry| entry.reads_for(wanted.tokens));
        let common = common.max().unwrap_or(0).min(most);
        common >= PAGE && common >= self.runner.held_of((user, wanted)) + PAGE
    }

    /// Begins a turn beside the others. Only a device that is lost is an error.
    pub(super) fn join(&mut self, mut turn: Turn) -> Result<(), RunError> {
        if let Some(reason) = turn.ends() {
            turn.finish(reason, Usage::default(), None);
            return Ok(());
        }
        // The model may have come after it.
        let lent = turn
            .is_encoded(&self.encoder)
            .then(|| turn.lend(&self.encoder));
        match lent {
            Some(Ok(true)) => {}
            Some(Err(refusal)) => {
                turn.fail(RequestError::Refused(refusal), Usage::default());
                return Ok(());
            }
            None | Some(Ok(false)) => {
                prepare::turn(&self.inbox.queue, turn, &self.encoder);
                return Ok(());
            }
        }
        let prompt = match turn.tokens(&self.encoder) {
            Ok(prompt) => prompt,
            Err(refusal) => {
                turn.fail(RequestError::Refused(refusal), Usage::default());
                return Ok(());
            }
        };
        // The limit may have come after it.
        if let Err(refusal) = turn.admit_pages() {
            turn.fail(RequestError::Refused(refusal), Usage::default());
            return Ok(());
        }
        let Some(decoder) = self.encoder.decoder() else {
            turn.fail(EngineError::NoVocabulary.into(), Usage::default());
            return Ok(());
        };
        let joins = self.joins(&self.standings(&self.slices), &turn);
        self.make_way(&joins)?;
        if let Some(guide) = &turn.guide {
            guide.wake(self.inbox.wake());
        }
        let entry = Entry::new(turn, prompt, self.encoder.clone(), decoder);
        if matches!(joins, Joins::NoRow | Joins::NoPages) {
            // With another model than it was encoded for it is longer.
            self.displaced.push(entry);
            return Ok(());
        }
        self.place(entry).map(drop)
    }

    /// Has those give up their pages in whose place a turn is to join.
    fn make_way(&mut self, joins: &Joins) -> Result<(), RunError> {
        let Joins::InPlaceOf(ids) = joins else {
            return Ok(());
        };
        self.settle()?;
        for id in ids {
            if let Some(at) = self.entries.iter().position(|entry| entry.id() == *id) {
                let entry = self.take_out(at);
                self.displaced.push(entry);
            }
        }
        Ok(())
    }

    /// Whether a turn may join now: those that made way come before others of their priority, and only who is urgent begins with
    /// a model that is about to be replaced.
    pub(super) fn may_join(&self, all: &[Standing], turn: &Turn) -> May {
        let mut before = self.displaced.iter().map(Entry::priority);
        let waits = before.any(|priority| priority >= turn.options.priority);
        let replaced = self.replacement.is_some() && turn.options.priority != Priority::Realtime;
        // Where all rows are taken nothing that costs more is asked: this is before each step, of each that waits.
        let asks = (turn.client.user, turn.options.priority);
        let no_row = policy::joins(all, self.runner.rows(), asks, |_| true) == Joins::NoRow;
        if waits || replaced || no_row || !self.is_within_share(turn) || self.awaits_beginning(turn)
        {
            return May::Not;
        }
        match self.joins(all, turn) {
            Joins::Beside | Joins::InPlaceOf(_) => May::Go,
            Joins::NoPages => May::LacksRoom,
            Joins::NoRow => May::Not,
        }
    }

    /// Lets the first of those that gave up their pages, or got none, begin for which there are enough, the most urgent before
    /// others. Returns whether one has.
    pub(super) fn let_back(&mut self) -> Result<bool, RunError> {
        if self.displaced.is_empty() {
            return Ok(false);
        }
        let (all, held) = (self.standings(&self.slices), self.inbox.held());
        let may = |at: usize| {
            let entry = &self.displaced[at];
            if held.rests(entry.priority()) || !self.is_within_share(entry.turn()) {
                return None;
            }
            let joins = self.joins(&all, entry.turn());
            let begins = matches!(joins, Joins::Beside | Joins::InPlaceOf(_));
            begins.then_some((at, joins))
        };
        let mut order: Vec<_> = (0..self.displaced.len()).collect();
        order.sort_by_key(|at| Reverse(self.displaced[*at].priority()));
        let Some((at, joins)) = order.into_iter().find_map(may) else {
            return Ok(false);
        };
        let entry = self.displaced.remove(at);
        self.make_way(&joins)?;
        self.place(entry)
    }

    /// Has an entry begin, with pages for all that it may say. Nothing waits for a step that is ahead, unless it is of the same
    /// conversation. Returns whether it has begun, or failed: else it waits, and others are to go on meanwhile.
    fn place(&mut self, mut entry: Entry) -> Result<bool, RunError> {
        if let Some(owner) = owner(entry.turn()) {
            self.settle_for(owner)?;
        }
        self.observer.interrupted();
        self.inbox.progress().enter(Phase::Prompt);
        let turn = entry.turn();
        let (client, sampling) = (&turn.client, turn.options.sampling);
        let positions = turn.positions(self.runner.context());
        let prompt = Wanted {
            tokens: entry.prompt(),
            said: entry.said(),
        };
        let (owner, user) = (owner(turn), client.user);
        let joined = self.runner.join(owner, user, prompt, sampling, positions);
        let (cache_entry, cached) = match joined {
            Ok(joined) => joined,
            // Memory that was given back is not to be had again: it waits for that of others, and comes before whoever waits, for
            // none of those is as urgent.
            Err(RunError::NoPages { .. }) if !self.entries.is_empty() => {
                self.displaced.insert(0, entry);
                return Ok(false);
            }
            Err(error) => return fail(entry, error).map(|()| true),
        };
        journal::turn_began(
            turn.id,
            client.user,
            cache_entry,
            entry.prompt().len(),
            cached,
        );
        observer::graph(self.inbox, &mut self.runner);
        entry.placed(cache_entry, cached);
        self.entries.push(entry);
        self.begin_restore(self.entries.len() - 1);
        self.bound(self.entries.len() - 1)?;
        Ok(true)
    }
}

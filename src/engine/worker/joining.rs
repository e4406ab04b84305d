//! How turns join those that are answered, and get pages of the cache.

use super::{Worker, fail};
use crate::engine::entry::{Entry, owner};
use crate::engine::observe;
use crate::engine::runner::RunError;
use crate::engine::schedule::{self, Joins, Standing};
use crate::engine::{EngineError, Phase, Priority, RequestError, Turn, Usage};
use crate::journal;
use crate::kv::Wanted;

impl Worker<'_> {
    /// How a turn could join now.
    fn joins(&self, all: &[Standing], turn: &Turn) -> Option<Joins> {
        if self.replacement.is_some() {
            return None;
        }
        let room = |leaving: &[u64]| self.has_room(turn, leaving);
        let priority = turn.options.priority;
        schedule::joins(all, self.runner.rows(), priority, room)
    }

    /// Whether there are pages for a turn if some of those that have joined gave theirs up.
    fn has_room(&self, turn: &Turn, leaving: &[u64]) -> bool {
        let (stay, leave) = self
            .entries
            .iter()
            .partition::<Vec<_>, _>(|entry| !leaving.contains(&entry.id()));
        let leaving: Vec<_> = leave.into_iter().map(Entry::place).collect();
        let positions = turn.positions(self.runner.context());
        self.is_within_share(turn, &stay) && self.runner.has_room(positions, &leaving)
    }

    /// Whether a turn's user has no more of the cache with it than one may, beside the others that run. Whoever is urgent is asked
    /// nothing, nor is who has nothing yet.
    fn is_within_share(&self, turn: &Turn, others: &[&Entry]) -> bool {
        let context = self.runner.context();
        let of_user = others
            .iter()
            .filter(|one| one.turn().client.user == turn.client.user);
        let theirs: usize = of_user.map(|one| one.turn().pages(context)).sum();
        let [pages, ..] = self.runner.pages();
        let share = self.inbox.limits().user_pages(pages);
        turn.options.priority == Priority::Realtime
            || theirs == 0
            || theirs + turn.pages(context) <= share
    }

    /// Begins a turn beside the others. Only a device that is lost is an error.
    pub(super) fn join(&mut self, mut turn: Turn) -> Result<(), RunError> {
        if let Some(reason) = turn.ends() {
            turn.finish(reason, Usage::default(), None);
            return Ok(());
        }
        let prompt = match turn.tokens(&self.encoder) {
            Ok(prompt) => prompt,
            Err(refusal) => {
                turn.fail(RequestError::Refused(refusal), Usage::default());
                return Ok(());
            }
        };
        // The model may have come after it, or the limit.
        if let Err(refusal) = turn.admit_pages() {
            turn.fail(RequestError::Refused(refusal), Usage::default());
            return Ok(());
        }
        let Some(decoder) = self.encoder.decoder() else {
            turn.fail(EngineError::NoVocabulary.into(), Usage::default());
            return Ok(());
        };
        let joins = self.joins(&self.standings(), &turn);
        if let Some(Joins::InPlaceOf(ids)) = &joins {
            self.settle()?;
            for id in ids {
                if let Some(at) = self.entries.iter().position(|entry| entry.id() == *id) {
                    let entry = self.take_out(at);
                    self.displaced.push(entry);
                }
            }
        }
        let entry = Entry::new(turn, prompt, self.encoder.clone(), decoder);
        if joins.is_none() {
            // Of another model than it was encoded for it is longer.
            self.displaced.push(entry);
            return Ok(());
        }
        self.place(entry)
    }

    /// Whether a turn is to join now: those that made way come before others of their priority.
    pub(super) fn may_join(&self, all: &[Standing], turn: &Turn) -> bool {
        let mut before = self.displaced.iter().map(Entry::standing);
        let waits = before.any(|one| one.priority >= turn.options.priority);
        !waits && self.joins(all, turn).is_some()
    }

    /// Lets the first of those that gave up their pages begin again, if there are enough for it. Returns whether there were.
    pub(super) fn let_back(&mut self) -> Result<bool, RunError> {
        let Some(first) = self.displaced.first() else {
            return Ok(false);
        };
        let room = |leaving: &[u64]| self.has_room(first.turn(), leaving);
        let (all, priority) = (self.standings(), first.standing().priority);
        let held = self.inbox.held().rests(priority);
        let joins = schedule::joins(&all, self.runner.rows(), priority, room);
        if held || joins != Some(Joins::Beside) {
            return Ok(false);
        }
        let entry = self.displaced.remove(0);
        self.place(entry)?;
        Ok(true)
    }

    /// Has an entry begin, with pages for all that it may say.
    fn place(&mut self, mut entry: Entry) -> Result<(), RunError> {
        self.settle()?;
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
                return Ok(());
            }
            Err(error) => return fail(entry, error),
        };
        journal::turn_began(
            turn.id,
            client.user,
            cache_entry,
            entry.prompt().len(),
            cached,
        );
        observe::graph(self.inbox, &mut self.runner);
        entry.placed(cache_entry, cached);
        self.entries.push(entry);
        self.begin_restore(self.entries.len() - 1);
        self.bound(self.entries.len() - 1).map(drop)
    }
}

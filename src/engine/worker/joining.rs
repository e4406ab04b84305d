//! How turns join those that are answered, and get regions of the cache.

use super::{Worker, fail};
use crate::engine::entry::{Entry, owner};
use crate::engine::observe;
use crate::engine::runner::RunError;
use crate::engine::schedule::{self, Joins, Standing};
use crate::engine::{EngineError, Phase, Priority, RequestError, Turn, Usage};
use crate::journal;

impl Worker<'_> {
    /// How a turn could join now.
    fn joins(&self, all: &[Standing], turn: &Turn) -> Option<Joins> {
        if self.replacement.is_some() {
            return None;
        }
        let room = self.runner.has_room(owner(turn));
        let priority = turn.options.priority;
        schedule::joins(all, self.runner.rows(), priority, room)
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
        let Some(decoder) = self.encoder.decoder() else {
            turn.fail(EngineError::NoVocabulary.into(), Usage::default());
            return Ok(());
        };
        if let Some(Joins::InPlaceOf(id)) = self.joins(&self.standings(), &turn) {
            self.settle()?;
            if let Some(at) = self.entries.iter().position(|entry| entry.id() == id) {
                let entry = self.take_out(at);
                self.displaced.push(entry);
            }
        }
        self.place(Entry::new(turn, prompt, self.encoder.clone(), decoder))
    }

    /// Whether a turn is to join now: those that made way come before others of their priority.
    pub(super) fn may_join(&self, all: &[Standing], turn: &Turn) -> bool {
        let mut before = self.displaced.iter().map(Entry::standing);
        let waits = before.any(|one| one.priority >= turn.options.priority);
        !waits && self.joins(all, turn).is_some()
    }

    /// Lets the first of those that gave up their region begin again, if there is one for it. Returns whether there was.
    pub(super) fn let_back(&mut self) -> Result<bool, RunError> {
        let Some(first) = self.displaced.first() else {
            return Ok(false);
        };
        let room = self.runner.has_room(owner(first.turn()));
        let (all, priority) = (self.standings(), first.standing().priority);
        let held = priority == Priority::Background && self.inbox.is_held();
        let joins = schedule::joins(&all, self.runner.rows(), priority, room);
        if held || joins != Some(Joins::Beside) {
            return Ok(false);
        }
        let entry = self.displaced.remove(0);
        self.place(entry)?;
        Ok(true)
    }

    /// Has an entry begin in a region of the cache.
    fn place(&mut self, mut entry: Entry) -> Result<(), RunError> {
        self.settle()?;
        self.observer.interrupted();
        self.inbox.progress().enter(Phase::Prompt);
        let turn = entry.turn();
        let (client, sampling) = (&turn.client, turn.options.sampling);
        let joined = self
            .runner
            .join(owner(turn), client.user, entry.prompt(), sampling);
        let (region, cached) = match joined {
            Ok(joined) => joined,
            Err(error) => return fail(entry, error),
        };
        journal::turn_began(turn.id, client.user, region, entry.prompt().len(), cached);
        observe::graph(self.inbox, &mut self.runner);
        entry.placed(region, cached);
        self.entries.push(entry);
        self.bound(self.entries.len() - 1).map(drop)
    }
}

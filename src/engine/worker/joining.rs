//! How turns join those that are answered, and get pages of the cache.

use std::cmp::Reverse;

use super::{Worker, fail};
use crate::engine::caller::error::EngineError;
use crate::engine::caller::request::{Priority, RequestError};
use crate::engine::generation::state::{Generation, owner};
use crate::engine::intake::fair::Readiness;
use crate::engine::intake::prepare;
use crate::engine::intake::request::Request;
use crate::engine::observe::observer;
use crate::engine::observe::progress::Phase;
use crate::engine::schedule::policy::{self, Candidate, Placement};
use crate::journal;
use crate::kv::{PAGE, Wanted};
use crate::runner::RunError;
use crate::telemetry::Usage;

impl Worker<'_> {
    /// How a turn could join now.
    fn joins(&self, all: &[Candidate], request: &Request) -> Placement {
        let rests = |id: &u64| {
            self.generations
                .iter()
                .find(|generation| generation.id() == *id)
        };
        let room = |leaving: &[u64]| {
            let leaving: Vec<_> = leaving
                .iter()
                .filter_map(rests)
                .map(Generation::slot)
                .collect();
            let positions = request.positions(self.runner.context());
            self.runner.has_room(request.wanted(), positions, &leaving)
        };
        let asks = (request.client.user, request.options.priority);
        policy::placement(all, self.runner.rows(), asks, room)
    }

    /// Whether a turn's user has no more of the cache with it than one may, beside the others that run. Whoever is urgent is asked
    /// nothing, nor is who has nothing yet.
    fn is_within_share(&self, request: &Request) -> bool {
        if request.options.priority == Priority::Realtime {
            return true;
        }
        let positions = request.positions(self.runner.context());
        let (theirs, takes) = self.runner.pages_of_user(request.wanted(), positions);
        let [pages, ..] = self.runner.pages();
        theirs == 0 || theirs + takes <= self.inbox.limits().user_pages(pages)
    }

    /// Whether another turn of its user's reads pages of a beginning that both have: it waits until they can be shared, for no
    /// longer than that one is read on.
    fn awaits_beginning(&self, request: &Request) -> bool {
        let (user, wanted) = request.wanted();
        let held = self.inbox.held();
        let reads = self.generations.iter().filter(|generation| {
            let priority = generation.priority();
            let is_read = priority >= request.options.priority && !held.rests(priority);
            is_read
                && generation.request().client.user == user
                && !self.is_restoring(generation.id())
        });
        let most = wanted.tokens.len().saturating_sub(1);
        let common = reads.filter_map(|generation| generation.reads_for(wanted.tokens));
        let common = common.max().unwrap_or(0).min(most);
        common >= PAGE && common >= self.runner.held_of((user, wanted)) + PAGE
    }

    /// Begins a turn beside the others. Only a device that is lost is an error.
    pub(super) fn join(&mut self, mut request: Request) -> Result<(), RunError> {
        if let Some(reason) = request.ends() {
            request.finish(reason, Usage::default(), None);
            return Ok(());
        }
        // The model may have come after it.
        let lent = request
            .is_encoded(&self.encoder)
            .then(|| request.lend(&self.encoder));
        match lent {
            Some(Ok(true)) => {}
            Some(Err(refusal)) => {
                request.fail(RequestError::Refused(refusal), Usage::default());
                return Ok(());
            }
            None | Some(Ok(false)) => {
                prepare::request(&self.inbox.queue, request, &self.encoder);
                return Ok(());
            }
        }
        let prompt = match request.tokens(&self.encoder) {
            Ok(prompt) => prompt,
            Err(refusal) => {
                request.fail(RequestError::Refused(refusal), Usage::default());
                return Ok(());
            }
        };
        // The limit may have come after it.
        if let Err(refusal) = request.admit_pages() {
            request.fail(RequestError::Refused(refusal), Usage::default());
            return Ok(());
        }
        let Some(decoder) = self.encoder.decoder() else {
            request.fail(EngineError::NoVocabulary.into(), Usage::default());
            return Ok(());
        };
        let joins = self.joins(&self.candidates(&self.slices), &request);
        self.make_way(&joins)?;
        if let Some(guide) = &request.guide {
            guide.wake(self.inbox.wake());
        }
        let generation = Generation::new(request, prompt, self.encoder.clone(), decoder);
        if matches!(joins, Placement::NoRow | Placement::NoPages) {
            // With another model than it was encoded for it is longer.
            self.displaced.push(generation);
            return Ok(());
        }
        self.place(generation).map(drop)
    }

    /// Has those give up their pages in whose place a turn is to join.
    fn make_way(&mut self, joins: &Placement) -> Result<(), RunError> {
        let Placement::Preempting(ids) = joins else {
            return Ok(());
        };
        self.settle()?;
        for id in ids {
            if let Some(at) = self
                .generations
                .iter()
                .position(|generation| generation.id() == *id)
            {
                let generation = self.take_out(at);
                self.displaced.push(generation);
            }
        }
        Ok(())
    }

    /// Whether a turn may join now: those that made way come before others of their priority, and only who is urgent begins with
    /// a model that is about to be replaced.
    pub(super) fn may_join(&self, all: &[Candidate], request: &Request) -> Readiness {
        let mut before = self.displaced.iter().map(Generation::priority);
        let waits = before.any(|priority| priority >= request.options.priority);
        let replaced = self.replacement.is_some() && request.options.priority != Priority::Realtime;
        // Where all rows are taken nothing that costs more is asked: this is before each step, of each that waits.
        let asks = (request.client.user, request.options.priority);
        let no_row = policy::placement(all, self.runner.rows(), asks, |_| true) == Placement::NoRow;
        if waits
            || replaced
            || no_row
            || !self.is_within_share(request)
            || self.awaits_beginning(request)
        {
            return Readiness::Blocked;
        }
        match self.joins(all, request) {
            Placement::Fits | Placement::Preempting(_) => Readiness::Ready,
            Placement::NoPages => Readiness::NoRoom,
            Placement::NoRow => Readiness::Blocked,
        }
    }

    /// Lets the first of those that gave up their pages, or got none, begin for which there are enough, the most urgent before
    /// others. Returns whether one has.
    pub(super) fn let_back(&mut self) -> Result<bool, RunError> {
        if self.displaced.is_empty() {
            return Ok(false);
        }
        let (all, held) = (self.candidates(&self.slices), self.inbox.held());
        let may = |at: usize| {
            let generation = &self.displaced[at];
            if held.rests(generation.priority()) || !self.is_within_share(generation.request()) {
                return None;
            }
            let joins = self.joins(&all, generation.request());
            let begins = matches!(joins, Placement::Fits | Placement::Preempting(_));
            begins.then_some((at, joins))
        };
        let mut order: Vec<_> = (0..self.displaced.len()).collect();
        order.sort_by_key(|at| Reverse(self.displaced[*at].priority()));
        let Some((at, joins)) = order.into_iter().find_map(may) else {
            return Ok(false);
        };
        let generation = self.displaced.remove(at);
        self.make_way(&joins)?;
        self.place(generation)
    }

    /// Has an entry begin, with pages for all that it may say. Nothing waits for a step that is ahead, unless it is of the same
    /// conversation. Returns whether it has begun, or failed: else it waits, and others are to go on meanwhile.
    fn place(&mut self, mut generation: Generation) -> Result<bool, RunError> {
        if let Some(owner) = owner(generation.request()) {
            self.settle_for(owner)?;
        }
        self.observer.interrupted();
        self.inbox.progress().enter(Phase::Prompt);
        let request = generation.request();
        let (client, sampling) = (&request.client, request.options.sampling);
        let positions = request.positions(self.runner.context());
        let prompt = Wanted {
            tokens: generation.prompt(),
            said: generation.said(),
        };
        let (owner, user) = (owner(request), client.user);
        let joined = self.runner.join(owner, user, prompt, sampling, positions);
        let (slot, cached) = match joined {
            Ok(joined) => joined,
            // Memory that was given back is not to be had again: it waits for that of others, and comes before whoever waits, for
            // none of those is as urgent.
            Err(RunError::NoPages { .. }) if !self.generations.is_empty() => {
                self.displaced.insert(0, generation);
                return Ok(false);
            }
            Err(error) => return fail(generation, error).map(|()| true),
        };
        journal::turn_began(
            request.id,
            client.user,
            slot,
            generation.prompt().len(),
            cached,
        );
        observer::graph(self.inbox, &mut self.runner);
        generation.placed(slot, cached);
        self.generations.push(generation);
        self.begin_restore(self.generations.len() - 1);
        self.bound(self.generations.len() - 1)?;
        Ok(true)
    }
}

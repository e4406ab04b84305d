//! How requests become active generations, and get a slot and pages of the cache.

use std::cmp::Reverse;

use super::state::{Worker, fail};
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
    /// Returns how a request could join `all`.
    fn placement(&self, all: &[Candidate], request: &Request) -> Placement {
        let has_room = |leaving: &[usize]| {
            let positions = request.positions(self.runner.context());
            self.runner.has_room(request.wanted(), positions, leaving)
        };
        let asked = (request.client.user, request.options.priority);
        policy::placement(all, self.step_rows(), asked, has_room)
    }

    /// Whether a user would hold no more than its share of the cache with this request. A `realtime` request always may
    /// join, and so may the only request of a user.
    fn is_within_share(&self, request: &Request) -> bool {
        if request.options.priority == Priority::Realtime {
            return true;
        }
        let positions = request.positions(self.runner.context());
        let (held, more) = self.runner.pages_of_user(request.wanted(), positions);
        let [pages, ..] = self.runner.pages();
        held == 0 || held + more <= self.shared.limits().user_pages(pages)
    }

    /// Whether another request of the same user is prefilling a prefix that both have. The request waits until it can share
    /// those pages.
    fn awaits_shared_prefix(&self, request: &Request) -> bool {
        let (user, wanted) = request.wanted();
        let held = self.queue.held();
        let prefilling = self.slots.iter().filter(|generation| {
            let priority = generation.priority();
            let is_prefilled = priority >= request.options.priority && !held.suspends(priority);
            let is_same_user = generation.request().client.user == user;
            is_prefilled && is_same_user && !self.is_restoring(generation.slot())
        });
        let most = wanted.tokens.len().saturating_sub(1);
        let common = prefilling.filter_map(|generation| {
            let common = generation.pending_prefix(wanted.tokens)?.min(most);
            Some(self.runner.shareable(generation.slot(), common))
        });
        let common = common.max().unwrap_or(0);
        common >= PAGE && common >= self.runner.held_of((user, wanted)) + PAGE
    }

    /// Makes a request an active generation. Only a lost device is an error.
    pub(super) fn join(&mut self, mut request: Request) -> Result<(), RunError> {
        if let Some(reason) = request.ends() {
            request.finish(reason, Usage::default(), None);
            return Ok(());
        }
        let reused = self.shared.pictures.take_reused();
        if !reused.is_empty() {
            // A session whose last step is ahead would keep its rows.
            self.settle()?;
        }
        for numbers in reused {
            self.runner.forget_rows(&numbers);
        }
        // The request may be older than the model.
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
                prepare::request(self.queue, request, &self.encoder);
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
        // The request may be older than the limit.
        if let Err(refusal) = request.admit_pages() {
            request.fail(RequestError::Refused(refusal), Usage::default());
            return Ok(());
        }
        let Some(decoder) = self.encoder.decoder() else {
            request.fail(EngineError::NoVocabulary.into(), Usage::default());
            return Ok(());
        };
        let placement = self.placement(&self.candidates(&self.slices), &request);
        self.preempt(&placement)?;
        if let Some(guide) = &request.guide {
            guide.wake(self.queue.wake());
        }
        let past = self.past.of(request.client.user);
        let mut generation = Generation::new(request, prompt, self.encoder.clone(), decoder);
        generation.set_past(past);
        if matches!(placement, Placement::NoRow | Placement::NoPages) {
            // Its prompt may be longer than it was for another model.
            self.displaced.push(generation);
            return Ok(());
        }
        self.start(generation).map(drop)
    }

    /// Displaces the generations that a placement preempts.
    fn preempt(&mut self, placement: &Placement) -> Result<(), RunError> {
        let Placement::Preempting(slots) = placement else {
            return Ok(());
        };
        self.settle()?;
        for slot in slots {
            let generation = self.take_out(*slot);
            self.displaced.extend(generation);
        }
        Ok(())
    }

    /// Whether a request may join `all`. Displaced generations of the same priority come first. Only a `realtime` request
    /// joins a model that is about to be replaced.
    pub(super) fn readiness(&self, all: &[Candidate], request: &Request) -> Readiness {
        let priority = request.options.priority;
        let mut displaced = self.displaced.iter().map(Generation::priority);
        let waits = displaced.any(|displaced| displaced >= priority);
        let replaced = self.replacement.is_some() && priority != Priority::Realtime;
        // This runs before each step for each request that waits, so the cheap checks come first.
        let asked = (request.client.user, priority);
        let no_row = policy::placement(all, self.step_rows(), asked, |_| true) == Placement::NoRow;
        if waits
            || replaced
            || no_row
            || !self.is_within_share(request)
            || self.awaits_shared_prefix(request)
        {
            return Readiness::Blocked;
        }
        match self.placement(all, request) {
            Placement::Fits | Placement::Preempting(_) => Readiness::Ready,
            Placement::NoPages => Readiness::NoRoom,
            Placement::NoRow => Readiness::Blocked,
        }
    }

    /// Starts the first displaced generation that fits, the most urgent first. Returns whether one has started.
    pub(super) fn resume_displaced(&mut self) -> Result<bool, RunError> {
        if self.displaced.is_empty() {
            return Ok(false);
        }
        let (all, held) = (self.candidates(&self.slices), self.queue.held());
        let placement = |at: usize| {
            let generation = &self.displaced[at];
            if held.suspends(generation.priority()) || !self.is_within_share(generation.request()) {
                return None;
            }
            let placement = self.placement(&all, generation.request());
            let starts = matches!(placement, Placement::Fits | Placement::Preempting(_));
            starts.then_some((at, placement))
        };
        let mut order: Vec<_> = (0..self.displaced.len()).collect();
        order.sort_by_key(|at| Reverse(self.displaced[*at].priority()));
        let Some((at, placement)) = order.into_iter().find_map(placement) else {
            return Ok(false);
        };
        let generation = self.displaced.remove(at);
        self.preempt(&placement)?;
        self.start(generation)
    }

    /// Gives a generation a slot, with pages for its prompt and its longest answer. It waits for a step that is ahead only if
    /// that step is of the same session. Returns false if the generation was displaced instead.
    fn start(&mut self, mut generation: Generation) -> Result<bool, RunError> {
        if let Some(owner) = owner(generation.request()) {
            self.settle_for(owner)?;
        }
        self.observer.interrupt();
        self.shared.progress.enter(Phase::Prompt);
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
            // The system has no memory for more pages. It waits for pages of others, and comes before the other displaced
            // generations: none of them is as urgent.
            Err(RunError::NoPages { .. }) if !self.slots.is_empty() => {
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
        observer::report_graph_events(self.shared, &mut self.runner);
        generation.start(slot, cached);
        self.slots.insert(generation);
        self.place_images(slot)?;
        self.begin_restore(slot);
        self.guide(slot)?;
        Ok(true)
    }
}

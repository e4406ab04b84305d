//! What the engine thread owns: the runner, the active generations, and the measurements that scheduling needs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::draft::Draft;
use super::head::Head;
use super::restore::Restore;
use super::slots::Slots;
use super::unload::Unload;
use super::unsaved::Unsaved;
use crate::board::EnergyMark;
use crate::engine::caller::error::EngineError;
use crate::engine::generation::state::Generation;
use crate::engine::intake::queue::Queue;
use crate::engine::intake::receiver::Receiver;
use crate::engine::intake::shared::Shared;
use crate::engine::observe::live::ImageCounts;
use crate::engine::observe::observer::Observer;
use crate::engine::picture::cache::EmbeddingCache;
use crate::engine::picture::encodings::Encodings;
use crate::engine::prompt::encoder::Encoder;
use crate::engine::reload::replace::Active;
use crate::engine::reload::replacement::Replacement;
use crate::engine::schedule::policy::Candidate;
use crate::engine::schedule::prefill_time::PrefillTimes;
use crate::engine::schedule::slices::Slices;
use crate::guess::{Past, StepCosts};
use crate::kv_store::Host;
use crate::runner::{RunError, Runner};

/// The state of the engine thread.
pub(super) struct Worker<'a> {
    pub(super) receiver: &'a Receiver,
    pub(super) shared: &'a Shared,
    pub(super) queue: &'a Arc<Queue>,
    pub(super) runner: Runner,
    /// The draft model, if there is one that works.
    pub(super) draft: Option<Draft>,
    /// The model's head, if it is loaded and works.
    pub(super) head: Option<Head>,
    /// The time that both have taken since the last tokens.
    pub(super) drafting: Duration,
    /// The latest answers of users.
    pub(super) past: Past,
    pub(super) encoder: Arc<Encoder>,
    /// The tower of the model, if it sees images.
    pub(super) encodings: Encodings,
    pub(super) embeddings: EmbeddingCache,
    /// The most bytes of embeddings that no request needs.
    pub(super) cache_bytes: u64,
    pub(super) image_counts: ImageCounts,
    pub(super) published_images: ImageCounts,
    /// The active generations.
    pub(super) slots: Slots,
    /// Generations that lost their slots to others, or got none, and wait for one.
    pub(super) displaced: Vec<Generation>,
    /// The slots of the step that was launched ahead, if there is one. Some of them may be free by now.
    pub(super) ahead: Vec<usize>,
    /// The time that the preempted step has taken so far.
    pub(super) stepping: Duration,
    pub(super) slices: Slices,
    /// The times of steps of this model.
    pub(super) step_costs: StepCosts,
    pub(super) prefill_times: PrefillTimes,
    pub(super) observer: Observer<'a>,
    /// Since when no generation was given its share of the energy.
    pub(super) energy: EnergyMark,
    /// Slots whose pages are being restored.
    pub(super) restores: Vec<Restore>,
    pub(super) unsaved: Unsaved,
    /// Pages of idle sessions in the host's memory, where a GPU has memory of its own.
    pub(super) host: Host,
    /// Since when there has been memory to release, and how many requests had begun by then.
    pub(super) spare_since: Option<(Instant, u64)>,
    /// Since when there has been no request.
    pub(super) idle_since: Option<Instant>,
    /// Why the weights are to be released, once nothing runs.
    pub(super) unload: Option<Unload>,
    /// The model that replaces this one once no slot is in use, or when it is due. Until then only `realtime` requests
    /// join.
    pub(super) replacement: Option<Box<Replacement>>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(receiver: &'a Receiver, (runner, active): (Runner, Active)) -> Self {
        let Active {
            encoder,
            draft,
            tower,
            cache_bytes,
        } = active;
        let head = Head::of(&runner);
        Self {
            receiver,
            shared: &receiver.shared,
            queue: &receiver.queue,
            runner,
            draft: draft.map(Draft::new),
            head,
            drafting: Duration::ZERO,
            past: Past::default(),
            encoder,
            encodings: Encodings::new(tower),
            embeddings: EmbeddingCache::default(),
            cache_bytes,
            image_counts: ImageCounts::default(),
            published_images: ImageCounts::default(),
            slots: Slots::default(),
            displaced: Vec::new(),
            ahead: Vec::new(),
            stepping: Duration::ZERO,
            slices: Slices::default(),
            step_costs: StepCosts::default(),
            prefill_times: PrefillTimes::default(),
            observer: Observer::new(&receiver.shared),
            energy: receiver.shared.board.energy.mark(Instant::now()),
            restores: Vec::new(),
            unsaved: Unsaved::default(),
            host: Host::default(),
            spare_since: None,
            idle_since: None,
            unload: None,
            replacement: None,
        }
    }

    /// Whether there is no generation, active or displaced.
    pub(super) fn is_idle(&self) -> bool {
        self.slots.is_empty() && self.displaced.is_empty()
    }

    /// Frees a slot, and returns the generation that had it.
    pub(super) fn take_out(&mut self, slot: usize) -> Option<Generation> {
        let mut generation = self.slots.remove(slot)?;
        generation.lose_slot(self.runner.len_of(slot));
        self.runner.leave(slot);
        if let Some(draft) = &mut self.draft {
            draft.leave(slot);
        }
        self.restores.retain(|restore| restore.slot != slot);
        if let Some(session) = generation.request().session {
            self.session_is_idle(session);
        }
        self.drop_unwanted_images();
        Some(generation)
    }

    /// Ends the generation in a slot, if there is one, because of an error. Only a lost device is an error for the others.
    pub(super) fn fail(&mut self, slot: usize, error: RunError) -> Result<(), RunError> {
        match self.take_out(slot) {
            Some(generation) => fail(generation, error),
            None => Ok(()),
        }
    }

    /// Returns the least prefill time of the users whose prompts are at least as urgent as the one in a slot.
    pub(super) fn least_waiting_for(&self, slot: usize) -> Duration {
        let priority = self.slots.get(slot).map(Generation::priority);
        let slots = self.slots.iter();
        let wait = slots.filter(|one| !one.is_prefilled() && Some(one.priority()) >= priority);
        let times = wait.map(|one| self.prefill_times.of(&one.request().client).user);
        times.min().unwrap_or(Duration::MAX)
    }

    /// Returns the active generations as the scheduler sees them, given `slices`.
    pub(super) fn candidates(&self, slices: &Slices) -> Vec<Candidate> {
        let (share, chunk) = (self.shared.limits().prefill, self.runner.prefill_chunk());
        let passes = |user, remaining| slices.passes(share, chunk, user, remaining);
        let candidate = |generation: &Generation| generation.candidate(&self.prefill_times, passes);
        self.slots.iter().map(candidate).collect()
    }
}

/// Ends a generation because of an error. Only a lost device is an error for the others.
pub(super) fn fail(generation: Generation, error: RunError) -> Result<(), RunError> {
    generation.fail(EngineError::from(error.clone()).into());
    if error.is_fatal() { Err(error) } else { Ok(()) }
}

//! When the draft model reads, and when it or the model's head guesses: in rows that no other generation needs, and where that
//! pays.
//!
//! A draft model or a head that fails is switched off. The answers continue without its guesses.

use std::time::Instant;

use super::arrivals::Interruption;
use super::draft::Ask;
use super::state::Worker;
use crate::engine::caller::request::Priority;
use crate::engine::generation::state::Generation;
use crate::engine::observe::observer;
use crate::journal;
use crate::runner::RunError;
use crate::telemetry::Proposer;

/// The part of an answer's time that reading its conversation may take.
const REPAID: f64 = 0.25;

/// A row that has no guesses of its own proposer, and may have some of the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    /// The index of the row in its step.
    pub(super) row: usize,
    pub(super) slot: usize,
    /// The proposer that is asked.
    pub(super) of: Proposer,
    pub(super) most: usize,
}

impl<'a> Worker<'a> {
    /// Asks the proposers that need passes of the device for guesses, and returns those of each wish. The step of `slots` that
    /// has them waits. No step may be ahead. A request that arrives ends the passes: the guesses so far are returned.
    ///
    /// # Errors
    /// If the device is lost.
    pub(super) fn guesses_of_device(
        &mut self,
        wishes: &[Wish],
        slots: &[usize],
    ) -> Result<Vec<Vec<u32>>, RunError> {
        if wishes.is_empty() {
            return Ok(Vec::new());
        }
        let interruption = self.interruption(slots);
        let begun = Instant::now();
        let mut guesses = vec![Vec::new(); wishes.len()];
        for proposer in [Proposer::Draft, Proposer::Head] {
            let of_this = wishes.iter().copied().enumerate();
            let of_this = of_this.filter(|(_, wish)| wish.of == proposer);
            let (places, wishes): (Vec<_>, Vec<_>) = of_this.unzip();
            if wishes.is_empty() {
                continue;
            }
            let made = if proposer == Proposer::Head {
                self.guesses_of_head(&wishes, interruption)?
            } else {
                self.guesses_of_draft(&wishes, interruption)?
            };
            for (place, made) in places.into_iter().zip(made) {
                guesses[place] = made;
            }
        }
        let took = begun.elapsed();
        self.drafting += took;
        self.stepping += took;
        Ok(guesses)
    }

    /// Returns the guesses of the draft model for each wish.
    fn guesses_of_draft(
        &mut self,
        wishes: &[Wish],
        interruption: Interruption<'_>,
    ) -> Result<Vec<Vec<u32>>, RunError> {
        let none = vec![Vec::new(); wishes.len()];
        let Some(draft) = &mut self.draft else {
            return Ok(none);
        };
        let mut asked = Vec::with_capacity(wishes.len());
        for Wish { slot, most, .. } in wishes.iter().copied() {
            let generation = self.slots.get(slot);
            let Some(conversation) = generation.and_then(Generation::drafted) else {
                return Ok(none);
            };
            asked.push(Ask {
                slot,
                conversation,
                most,
            });
        }
        let tried = draft.guess(&asked, &mut || interruption.is_due());
        observer::report_draft_failures(draft.take_graph_events());
        self.runner.attach_thread()?;
        let chosen = match tried {
            Ok(chosen) => chosen,
            Err(error) => return self.give_up_draft(error).map(|()| none),
        };
        let vocabulary = self.runner.vocabulary();
        let mut guesses = none;
        for ((Wish { slot, .. }, chosen), guesses) in wishes.iter().zip(chosen).zip(&mut guesses) {
            if let Some(generation) = self.slots.get_mut(*slot) {
                *guesses = generation.take_drafts(Proposer::Draft, chosen, vocabulary);
            }
        }
        Ok(guesses)
    }

    /// Returns the guesses of the model's head for each wish.
    fn guesses_of_head(
        &mut self,
        wishes: &[Wish],
        interruption: Interruption<'_>,
    ) -> Result<Vec<Vec<u32>>, RunError> {
        let none = vec![Vec::new(); wishes.len()];
        let Some(head) = &mut self.head else {
            return Ok(none);
        };
        let wanted: Vec<_> = wishes.iter().map(|wish| (wish.slot, wish.most)).collect();
        let mut is_over = || interruption.is_due();
        let chosen = match head.guess(&mut self.runner, &wanted, &mut is_over) {
            Ok(chosen) => chosen,
            Err(error) => return self.give_up_head(error).map(|()| none),
        };
        let vocabulary = self.runner.vocabulary();
        let mut guesses = none;
        for ((Wish { slot, .. }, chosen), guesses) in wishes.iter().zip(chosen).zip(&mut guesses) {
            if let Some(generation) = self.slots.get_mut(*slot) {
                *guesses = generation.take_drafts(Proposer::Head, chosen, vocabulary);
            }
        }
        Ok(guesses)
    }

    /// Reads a slice of a conversation that the draft model lacks, if one of the `slots` of a step has such a conversation: there
    /// are no guesses of it until then. Each step of others waits for one slice at most. A request that arrives preempts it.
    ///
    /// # Errors
    /// If the device is lost.
    pub(super) fn read_draft(&mut self, slots: &[usize]) -> Result<(), RunError> {
        let mut lacking = slots.iter().filter(|slot| self.reads_draft(**slot, slots));
        let Some(slot) = lacking.next().copied() else {
            return Ok(());
        };
        let interruption = self.interruption(slots);
        if interruption.is_due() {
            return Ok(());
        }
        let slice = self.shared.limits().prefill.slice;
        let generation = self.slots.get(slot);
        let conversation = generation.and_then(Generation::drafted);
        let (Some(draft), Some(conversation)) = (&mut self.draft, conversation) else {
            return Ok(());
        };
        let mut is_over = || interruption.is_due();
        let read = draft.read(slot, conversation, (slice, &mut is_over));
        observer::report_draft_failures(draft.take_graph_events());
        // The time of the slice does not count as the time of a step.
        self.observer.interrupt();
        self.shared.progress.advance();
        self.runner.attach_thread()?;
        read.or_else(|error| self.give_up_draft(error))
    }

    /// Returns the condition that ends the guesses for a step of `slots`.
    fn interruption(&self, slots: &[usize]) -> Interruption<'a> {
        let all = slots.iter().filter_map(|slot| self.slots.get(*slot));
        let most_urgent = all.map(Generation::priority).max();
        Interruption {
            queue: self.queue,
            has_row: self.slots.len() < self.step_rows(),
            priority: most_urgent.unwrap_or(Priority::Background),
        }
    }

    /// Whether the draft model is to read more of the conversation in one of the `slots` of a step.
    fn reads_draft(&self, slot: usize, slots: &[usize]) -> bool {
        let (Some(draft), Some(generation)) = (&self.draft, self.slots.get(slot)) else {
            return false;
        };
        let Some(conversation) = generation.drafted() else {
            return false;
        };
        let lacks = draft.lacks(slot, conversation).unwrap_or(0);
        if lacks == 0 || self.drafts_for(slot, slots, self.step_rows()) == 0 {
            return false;
        }
        // A short answer does not repay a long prompt.
        let times = (draft.reading(lacks), self.step_costs.time(1));
        match times {
            (Some(reading), Some(step)) if generation.guesses_where_it_pays() => {
                #[allow(clippy::cast_precision_loss)] // a number of tokens
                let answer = conversation.left as f64 * step;
                reading <= answer * REPAID
            }
            _ => true,
        }
    }

    /// Whether the next step of one of `slots` may have guesses of a proposer that runs passes, so that it must not be launched
    /// ahead.
    pub(super) fn may_draft(&self, slot: usize, slots: &[usize]) -> bool {
        let (_, count) = self.drafts_of(slot, slots, slots.len(), self.step_rows());
        count > 0
    }

    /// Returns how many guesses, at most `most`, a row of a step of `slots` gets of a proposer that runs passes, and which one
    /// that is. The step has `rows` rows without them.
    pub(super) fn drafts_of(
        &self,
        slot: usize,
        slots: &[usize],
        rows: usize,
        most: usize,
    ) -> (Proposer, usize) {
        let most = most.min(self.step_rows().saturating_sub(rows));
        let proposer = if self.has_read_draft(slot) {
            Proposer::Draft
        } else {
            Proposer::Head
        };
        let count = self.worthwhile_drafts(proposer, slot, slots, (rows, most));
        (proposer, count)
    }

    /// Whether the draft model has read the conversation in a slot, so that it can guess.
    fn has_read_draft(&self, slot: usize) -> bool {
        let generation = self.slots.get(slot);
        let conversation = generation.and_then(Generation::drafted);
        let lacks = self
            .draft
            .as_ref()
            .zip(conversation)
            .and_then(|(draft, conversation)| draft.lacks(slot, conversation));
        lacks == Some(0)
    }

    /// Returns how many guesses of the draft model a slot would get at most.
    fn drafts_for(&self, slot: usize, slots: &[usize], most: usize) -> usize {
        let most = most.saturating_sub(slots.len());
        self.worthwhile_drafts(Proposer::Draft, slot, slots, (slots.len(), most))
    }

    /// Returns how many guesses of a proposer pay. A generation that shares the step with a more urgent one gets none, because
    /// that one would wait for them.
    fn worthwhile_drafts(
        &self,
        proposer: Proposer,
        slot: usize,
        slots: &[usize],
        rows: (usize, usize),
    ) -> usize {
        let Some(generation) = self.slots.get(slot) else {
            return 0;
        };
        let each = match proposer {
            Proposer::Draft => self.draft.as_ref().map(|draft| draft.each(slots.len())),
            Proposer::Head => {
                let head = self.head.as_ref();
                let head = head.filter(|head| generation.uses_head(head.is_assistant()));
                head.map(|head| head.each(slots.len()))
            }
            Proposer::Lookup | Proposer::Custom => None,
        };
        let Some(each) = each else {
            return 0;
        };
        let all = slots.iter().filter_map(|slot| self.slots.get(*slot));
        let most_urgent = all.map(Generation::priority).max();
        if most_urgent.is_some_and(|most| most > generation.priority()) {
            return 0;
        }
        generation.worthwhile_drafts(proposer, &self.step_costs, rows, each)
    }

    /// Switches the draft model off because of an error.
    ///
    /// # Errors
    /// If the device is lost.
    fn give_up_draft(&mut self, error: RunError) -> Result<(), RunError> {
        if error.is_fatal() {
            return Err(error);
        }
        let Some(draft) = self.draft.take() else {
            return Ok(());
        };
        journal::draft_failed(&error.to_string());
        let freed = draft.memory();
        drop(draft);
        self.shared.publish(|status| {
            let memory = &mut status.memory;
            memory.weights = memory.weights.saturating_sub(freed.weights);
            memory.activations = memory.activations.saturating_sub(freed.activations);
            status.model.draft.clear();
        });
        self.publish_memory();
        self.runner.attach_thread()
    }

    /// Switches the model's head off because of an error. Its memory is a part of the model's.
    ///
    /// # Errors
    /// If the device is lost.
    fn give_up_head(&mut self, error: RunError) -> Result<(), RunError> {
        if error.is_fatal() {
            return Err(error);
        }
        let was_assistant = self.head.take().is_some_and(|head| head.is_assistant());
        journal::head_failed(&error.to_string());
        self.shared.publish(|status| {
            status.model.head = false;
            if was_assistant {
                status.model.draft.clear();
            }
        });
        Ok(())
    }

    /// Releases memory of the draft model's cache that nothing uses.
    ///
    /// # Errors
    /// If the device is lost.
    pub(super) fn release_draft_memory(&mut self) -> Result<(), RunError> {
        let Some(draft) = &mut self.draft else {
            return Ok(());
        };
        let released = draft.give_back();
        self.runner.attach_thread()?;
        released.or_else(|error| self.give_up_draft(error))
    }

    /// Releases the memory of the draft model's idle sequences, and returns its bytes.
    ///
    /// # Errors
    /// If the device is lost.
    pub(super) fn evict_drafts(&mut self) -> Result<u64, RunError> {
        let Some(draft) = &mut self.draft else {
            return Ok(0);
        };
        let released = draft.evict_idle();
        self.runner.attach_thread()?;
        released.or_else(|error| self.give_up_draft(error).map(|()| 0))
    }
}

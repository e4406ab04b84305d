//! Prefill and decode on the CPU: turns, prompts and steps.

use std::any::Any;
use std::time::Instant;

use super::Cpu;
use super::ahead::is_refused;
use super::core::Guide;
use super::step::Living;
use crate::executor::{
    Base, Behind, ExecuteError, Executor, Given, Graphs, ImagePrompt, Inspect as _, Pass,
    PreemptPrompt, PreemptStep, Retired, StepState, StepTimes, Steps,
};
use crate::fault::Faults;
use crate::sampler::{Mask, Parameters, Promise, Scored};
use crate::tape::{Ending, Tape};

impl Executor for Cpu {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn identity(&self) -> String {
        let (machine, simd) = (std::env::consts::ARCH, pulp::Arch::new());
        format!("cpu, {machine}, {simd:?}")
    }

    fn graphs(&self) -> &dyn Graphs {
        &self.base
    }

    fn graphs_mut(&mut self) -> &mut dyn Graphs {
        &mut self.base
    }

    fn faults(&self) -> &Faults {
        &self.faults
    }

    fn retire(self: Box<Self>) -> Box<dyn Retired> {
        let Self { mut base, .. } = *self;
        base.retire();
        Box::new(base)
    }

    fn resume(&mut self, mut before: Box<dyn Retired>) {
        if (&*before as &dyn Any).is::<Base<Living>>() {
            let before: Box<dyn Any> = before;
            if let Ok(before) = before.downcast::<Base<Living>>() {
                self.base.resume(*before);
            }
        } else {
            self.base.succeed(before.graphs_mut());
        }
    }
}

impl Steps for Cpu {
    fn prepare(&mut self, tape: &Tape) -> Result<(), ExecuteError> {
        let before: Vec<u64> = self.core.addresses().collect();
        self.core.prepare(tape);
        if !self.core.addresses().eq(before) {
            self.base.moves += 1;
            self.preempted_step = None;
        }
        Ok(())
    }

    fn begin(
        &mut self,
        (slot, position): (usize, usize),
        parameters: Parameters,
        prompt: &[u32],
    ) -> Result<(), ExecuteError> {
        self.core.slot = slot;
        self.base.preempted.discard(slot);
        self.discard_state(slot);
        self.discard_ahead_of(slot);
        let conversation = &mut self.core.conversations[slot];
        conversation.state.position = position;
        conversation.rotary_offset = 0;
        conversation.sampler.begin(parameters, prompt);
        conversation.guide = Guide::Free;
        conversation.guesses.clear();
        conversation.scored.clear();
        Ok(())
    }

    fn active(&self) -> usize {
        self.core.slot
    }

    fn activate(&mut self, slot: usize) {
        self.core.slot = slot;
    }

    fn set_token(&mut self, token: u32) {
        self.discard_ahead_of(self.core.slot);
        let conversation = &mut self.core.conversations[self.core.slot];
        conversation.state.token = token;
        conversation.sampler.correct(token);
    }

    fn guide(&mut self, slot: usize, mask: Option<&Mask>) -> Result<(), ExecuteError> {
        self.bind(
            slot,
            mask.map_or(Guide::Free, |mask| Guide::Allows(mask.clone())),
        );
        Ok(())
    }

    fn guide_later(&mut self, slot: usize, mask: Promise) -> Result<(), ExecuteError> {
        self.bind(slot, Guide::Later(mask));
        Ok(())
    }

    fn guide_guesses(&mut self, slot: usize, masks: Vec<Promise>) -> Result<(), ExecuteError> {
        self.core.conversations[slot].guesses = masks.into();
        Ok(())
    }

    fn awaits_mask(&self, slot: usize) -> bool {
        self.core.conversations[slot].awaits_mask
    }

    fn scored(&self, slot: usize) -> &[Vec<Scored>] {
        &self.core.conversations[slot].scored
    }

    fn state_of(&self, slot: usize) -> StepState {
        self.core.conversations[slot].state
    }

    fn run_until(
        &mut self,
        tape: &Tape,
        tokens: &[u32],
        preempts: PreemptPrompt<'_>,
    ) -> Result<Pass, ExecuteError> {
        (self.ahead, self.previous_logits) = (None, None);
        self.fits(self.core.slot, tokens.len(), tape.rows)?;
        self.free_spares();
        self.core.prompt.clear();
        self.core.prompt.extend_from_slice(tokens);
        self.core.images.clear();
        let key = self.key(tape);
        let recorded = tape.ending != Ending::Logits
            && self.base.prompts.serve(self.base.graph.life(), tape.rows);
        if recorded {
            let (mut step, graph, prompts) = self.split(tape);
            prompts.run(key, &mut step, graph.life_mut())?;
        } else if self.eager_until(tape, tokens, preempts)? == Pass::Preempted {
            return Ok(Pass::Preempted);
        }
        if tape.ending != Ending::Token {
            self.core.conversations[self.core.slot].state.position += tokens.len();
        }
        Ok(Pass::Ended)
    }

    fn refuse_tokens(&mut self, tokens: &[u32], vocabulary: usize) {
        let mask = Mask::without(tokens, vocabulary);
        self.core.allowed = (!tokens.is_empty()).then_some(mask);
    }

    fn takes_images(&self) -> bool {
        true
    }

    fn run_images(
        &mut self,
        tape: &Tape,
        prompt: &ImagePrompt<'_>,
        preempts: PreemptPrompt<'_>,
    ) -> Result<Pass, ExecuteError> {
        (self.ahead, self.previous_logits) = (None, None);
        let tokens = prompt.tokens;
        self.fits(self.core.slot, tokens.len(), tape.rows)?;
        self.free_spares();
        let activations = &mut self.core.buffers.activations;
        self.core.images.place(tape, prompt, activations)?;
        self.core.prompt.clear();
        self.core.prompt.extend_from_slice(tokens);
        let ran = self.eager_until(tape, tokens, preempts);
        self.core.images.clear();
        if ran? == Pass::Preempted {
            return Ok(Pass::Preempted);
        }
        if tape.ending != Ending::Token {
            self.core.conversations[self.core.slot].state.position += tokens.len();
        }
        Ok(Pass::Ended)
    }

    fn set_rotary_offset(&mut self, slot: usize, offset: isize) -> Result<(), ExecuteError> {
        let conversation = &mut self.core.conversations[slot];
        if conversation.rotary_offset != offset {
            conversation.rotary_offset = offset;
            self.discard_ahead_of(slot);
        }
        Ok(())
    }

    fn discard_preempted(&mut self, slot: usize) {
        self.base.preempted.discard(slot);
        self.discard_state(slot);
    }

    fn step_rows(
        &mut self,
        tape: &Tape,
        slots: &[usize],
        given: &[Given],
        preempts: PreemptStep<'_>,
        behind: Option<Behind<'_>>,
    ) -> Result<Pass, ExecuteError> {
        for slot in slots {
            let rows = slots.iter().filter(|other| *other == slot).count();
            self.fits(*slot, rows, tape.rows)?;
        }
        let begun = Instant::now();
        let before = self.launches_ahead.then(|| self.snapshot(slots));
        let ahead = self.ahead.take();
        let mut ran = match ahead.filter(|ahead| given.is_empty() && ahead.serves(slots)) {
            Some(ahead) => ahead.take(&mut self.core.conversations, slots),
            None => match self.run_rows(tape, slots, given, preempts) {
                Ok(Pass::Preempted) => return Ok(Pass::Preempted),
                ran => ran.map(drop),
            },
        };
        self.previous_logits = None;
        if let Some(before) = before {
            if let Some(behind) = behind.filter(|_| !is_refused(&ran)) {
                self.previous_logits = self.all_logits(tape).ok();
                ran = self.launch_behind(behind).and(ran);
            }
            // A refusal loses the tokens of the previous step, too.
            if is_refused(&ran) {
                self.previous_logits = None;
                self.restore(before);
            }
        }
        for slot in slots {
            self.core.conversations[*slot].guesses.clear();
        }
        self.base.times.waited = begun.elapsed();
        ran.map(|()| Pass::Ended)
    }

    fn guess_rows(
        &mut self,
        tape: &Tape,
        slots: &[usize],
        given: &[u32],
    ) -> Result<Vec<Option<u32>>, ExecuteError> {
        for slot in slots {
            let rows = slots.iter().filter(|other| *other == slot).count();
            self.fits(*slot, rows, tape.rows)?;
        }
        self.discard_ahead()?;
        self.previous_logits = None;
        let given: Vec<_> = given.iter().copied().map(Given::Guessed).collect();
        self.run_rows(tape, slots, &given, None)?;
        Ok(self.core.guessed.clone())
    }

    fn preempt_step(&mut self, _: &Tape) -> Result<bool, ExecuteError> {
        Ok(self.is_step_preempted())
    }

    fn is_step_preempted(&self) -> bool {
        self.preempted_step.is_some()
    }

    fn is_ahead(&self) -> bool {
        self.ahead.is_some() || self.is_step_preempted()
    }

    fn discard_ahead(&mut self) -> Result<(), ExecuteError> {
        (self.ahead, self.preempted_step) = (None, None);
        Ok(())
    }

    fn record(&mut self, tape: &Tape, slot: usize) -> Result<(), ExecuteError> {
        self.core.slot = slot;
        let key = self.key(tape);
        let (mut prompt, graph, prompts) = self.split(tape);
        prompts.record(key, &mut prompt, graph.life_mut())
    }

    fn step_times(&self) -> StepTimes {
        self.base.times
    }
}

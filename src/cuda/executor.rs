//! Prefill and decode on a device: turns, prompts and steps.

use std::rc::Rc;

use super::Cuda;
use super::retired::RetiredCuda;
use crate::device::Modules;
use crate::executor::{
    Base, Behind, ExecuteError, Executor, Given, Graphs, ImagePrompt, Pass, PreemptPrompt,
    PreemptStep, Retired, StepState, StepTimes, Steps,
};
use crate::fault::Faults;
use crate::sampler::{History, Mask, Parameters, Promise, Scored};
use crate::tape::Tape;

impl Executor for Cuda {
    fn name(&self) -> &'static str {
        "cuda"
    }

    /// Contains a hash of the kernels, because another version of the compiler can change the last bits.
    fn identity(&self) -> String {
        format!("{}, kernels {:016x}", self.describe(), Modules::hash())
    }

    /// Makes the context current on this thread.
    fn attach_thread(&self) -> Result<(), ExecuteError> {
        Ok(self.context.make_current()?)
    }

    fn graphs(&self) -> &dyn Graphs {
        &self.base
    }

    fn graphs_mut(&mut self) -> &mut dyn Graphs {
        &mut self.base
    }

    fn faults(&self) -> &Faults {
        self.context.faults()
    }

    fn retire(mut self: Box<Self>) -> Box<dyn Retired> {
        let empty = Base::new(&self.options.graph);
        let mut base = std::mem::replace(&mut self.base, empty);
        base.retire();
        Box::new(RetiredCuda {
            base,
            modules: Rc::clone(&self.modules),
            context: Rc::clone(&self.context),
        })
    }

    fn resume(&mut self, mut before: Box<dyn Retired>) {
        match self.recordings.take() {
            // They came with the device.
            Some(recordings) => self.base.resume(recordings),
            None => self.base.succeed(before.graphs_mut()),
        }
    }
}

impl Steps for Cuda {
    fn prepare(&mut self, tape: &Tape) -> Result<(), ExecuteError> {
        if self.buffers.grow(&self.context, tape, &mut self.stream)? {
            self.base.moves += 1;
            self.started = None;
            // The saved buffers have moved.
            self.discard_in_flight();
        }
        Ok(())
    }

    /// The device receives the request with the next launch.
    fn begin(
        &mut self,
        (slot, position): (usize, usize),
        parameters: Parameters,
        prompt: &[u32],
    ) -> Result<(), ExecuteError> {
        self.attach_weights()?;
        self.discard_in_flight_of(slot);
        self.started = None;
        self.idle_since = None;
        self.slot = slot;
        self.late.discard(slot);
        self.base.preempted.discard(slot);
        self.conversations[slot].begin(position, parameters, &History::of(prompt));
        Ok(())
    }

    fn active(&self) -> usize {
        self.slot
    }

    fn activate(&mut self, slot: usize) {
        self.slot = slot;
    }

    fn set_token(&mut self, token: u32) {
        self.conversations[self.slot].set_token(token);
    }

    fn guide(&mut self, slot: usize, mask: Option<&Mask>) -> Result<(), ExecuteError> {
        let number = self.bind(slot, mask.is_some());
        if let (Some(mask), Some(number)) = (mask, number) {
            self.scratch.send_mask(slot, number, mask)?;
        }
        Ok(())
    }

    /// The mask is sent once it has been computed: during a step, or before a run that cannot be repeated.
    fn guide_later(&mut self, slot: usize, mask: Promise) -> Result<(), ExecuteError> {
        if let Some(number) = self.bind(slot, true) {
            self.late.push(slot, number, mask);
        }
        Ok(())
    }

    fn guide_guesses(&mut self, slot: usize, masks: Vec<Promise>) -> Result<(), ExecuteError> {
        Ok(self.bind_guesses(slot, masks)?)
    }

    fn awaits_mask(&self, slot: usize) -> bool {
        self.conversations[slot].awaits_mask
    }

    fn scored(&self, slot: usize) -> &[Vec<Scored>] {
        &self.conversations[slot].scored
    }

    fn state_of(&self, slot: usize) -> StepState {
        self.conversations[slot].state
    }

    fn run_until(
        &mut self,
        tape: &Tape,
        tokens: &[u32],
        preempts: PreemptPrompt<'_>,
    ) -> Result<Pass, ExecuteError> {
        if self.preempted_step.is_none() {
            self.discard_in_flight();
        }
        if !self.has_started(tape, tokens) {
            self.started = None;
            self.send_prompt(tape, tokens)?;
        }
        let (key, slot) = (self.key(tape), self.slot);
        let ran = if self.is_recorded(tape) {
            let (mut step, graph, prompts) = self.split(tape);
            let ran = prompts.run(key, &mut step, graph.life_mut());
            ran.map(|()| Pass::Ended)
        } else {
            self.eager_until(tape, tokens, preempts)
        };
        let pass = ran.inspect_err(|_| self.lose(&[slot]))?;
        if pass == Pass::Ended {
            self.end_prompt(tape, tokens.len())?;
        }
        Ok(pass)
    }

    fn refuse_tokens(&mut self, tokens: &[u32], vocabulary: usize) {
        if tokens.is_empty() {
            return;
        }
        let mask = Mask::without(tokens, vocabulary);
        // A failure of the device shows at the next launch, too.
        let _ = self.send_allowed(&mask);
        self.allowed = Some(mask);
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
        if self.preempted_step.is_none() {
            self.discard_in_flight();
        }
        self.started = None;
        let (slot, tokens) = (self.slot, prompt.tokens);
        self.fits(slot, tokens.len())?;
        self.send_images(tape, prompt)?;
        self.send_prompt(tape, tokens)?;
        let ran = self.eager_until(tape, tokens, preempts);
        let pass = ran.inspect_err(|_| self.lose(&[slot]))?;
        if pass == Pass::Ended {
            self.end_prompt(tape, tokens.len())?;
        }
        Ok(pass)
    }

    fn set_rotary_offset(&mut self, slot: usize, offset: isize) -> Result<(), ExecuteError> {
        Ok(self.turn_by(slot, offset)?)
    }

    fn discard_preempted(&mut self, slot: usize) {
        self.base.preempted.discard(slot);
        if let Some(states) = &mut self.states {
            states.places.discard(slot);
        }
    }

    fn start_prompt(&mut self, tape: &Tape, tokens: &[u32]) -> Result<(), ExecuteError> {
        let waits = self.pending.is_empty() || self.is_partial() || self.is_launched(self.slot);
        if waits || self.is_recorded(tape) {
            return Ok(());
        }
        self.send_prompt(tape, tokens)?;
        let (slot, begun) = (self.slot, self.begin_layers(tape, tokens));
        Ok(begun.inspect_err(|_| self.lose(&[slot]))?)
    }

    fn step_rows(
        &mut self,
        tape: &Tape,
        slots: &[usize],
        given: &[Given],
        preempts: PreemptStep<'_>,
        behind: Option<Behind<'_>>,
    ) -> Result<Pass, ExecuteError> {
        let ran = self.run_rows((tape, slots, given), preempts, behind);
        if !given.is_empty() {
            self.discard_guesses(slots);
        }
        ran
    }

    fn guess_rows(
        &mut self,
        tape: &Tape,
        slots: &[usize],
        given: &[u32],
    ) -> Result<Vec<Option<u32>>, ExecuteError> {
        for slot in slots {
            let rows = slots.iter().filter(|other| *other == slot).count();
            self.fits(*slot, rows)?;
        }
        self.discard_in_flight();
        self.idle_since = None;
        // Rows with guesses leave the device's conversation where it is.
        let given: Vec<_> = given.iter().copied().map(Given::Guessed).collect();
        // A mask may not have arrived, and the pass does not wait for it.
        let free = |slot: &usize| self.conversations[*slot].suspend_guide();
        let guides: Vec<_> = slots.iter().map(free).collect();
        let assists = tape.assists();
        if assists {
            self.assist(slots, true);
        }
        let launched = self.launch(tape, slots, &given, false);
        if assists {
            self.assist(slots, false);
        }
        for (slot, guide) in slots.iter().zip(guides) {
            self.conversations[*slot].resume_guide(guide);
        }
        launched?;
        Ok(self.take_guesses()?)
    }

    fn preempt_step(&mut self, tape: &Tape) -> Result<bool, ExecuteError> {
        if self.pending.len() == 1 && self.is_partial() {
            self.save_step(tape)?;
        }
        Ok(self.is_step_preempted())
    }

    fn is_step_preempted(&self) -> bool {
        self.preempted_step.is_some()
    }

    fn finish(&mut self) -> Result<(), ExecuteError> {
        Ok(self.stream.synchronize()?)
    }

    fn is_ahead(&self) -> bool {
        self.ahead().is_some()
    }

    fn discard_ahead(&mut self) -> Result<(), ExecuteError> {
        Ok(self.drain()?)
    }

    fn record(&mut self, tape: &Tape, slot: usize) -> Result<(), ExecuteError> {
        self.drain()?;
        self.attach_weights()?;
        self.slot = slot;
        let key = self.key(tape);
        let (mut prompt, graph, prompts) = self.split(tape);
        Ok(prompts.record(key, &mut prompt, graph.life_mut())?)
    }

    fn step_times(&self) -> StepTimes {
        self.base.times
    }
}

//! Prefill and decode: what starts a turn, runs its prompt and its steps, and what preempts or discards them.

use super::images::{ImageError, ImagePrompt};
use super::preempted::{Pass, PreemptPrompt, PreemptStep};
use super::step::{ExecuteError, Given, StepState, StepTimes};
use crate::sampler::{Mask, Parameters, Promise, Scored};
use crate::tape::Tape;

/// A step that a device may launch before the tokens of the running step have been taken. It has one row for
/// each slot.
///
/// `preempts` is called as late as possible without the device becoming idle.
pub struct Behind<'a> {
    pub tape: &'a Tape,
    pub slots: &'a [usize],
    /// Whether the step is launched in parts, so that it can be preempted between two of them.
    pub cut: bool,
    pub preempts: PreemptPrompt<'a>,
}

/// Runs prompts and steps of the conversations in the cache. One slot is active: methods without a slot refer to it.
pub trait Steps {
    /// Allocates buffers for a tape, so that no run of it moves memory.
    ///
    /// # Errors
    /// If there is not enough memory.
    fn prepare(&mut self, tape: &Tape) -> Result<(), ExecuteError>;

    /// Starts a request in a slot whose pages hold `position` positions, and activates the slot.
    ///
    /// # Errors
    /// If the device has failed.
    fn begin(
        &mut self,
        place: (usize, usize),
        parameters: Parameters,
        prompt: &[u32],
    ) -> Result<(), ExecuteError>;

    /// The active slot.
    fn active(&self) -> usize;

    /// Activates a slot; its turn continues from its position.
    fn activate(&mut self, slot: usize);

    /// Replaces the token that the next step of the active slot starts with.
    fn set_token(&mut self, token: u32);

    /// Sets the tokens that a slot may choose next; `None` allows all tokens from then on.
    ///
    /// After its first mask a slot needs another mask before each token. A step without one leaves the slot unchanged.
    /// `begin` removes this requirement.
    ///
    /// # Errors
    /// If the device has failed.
    fn guide(&mut self, slot: usize, mask: Option<&Mask>) -> Result<(), ExecuteError>;

    /// Sets a mask that is still being computed. A token choice waits for the mask, or leaves the slot unchanged as without a
    /// mask.
    ///
    /// # Errors
    /// If the device has failed.
    fn guide_later(&mut self, slot: usize, mask: Promise) -> Result<(), ExecuteError>;

    /// Sets the masks after the guesses of a slot's next step, in order. They may still be computed, and they are for that step
    /// alone. If a mask is not there in time, the slot chooses no token after its guess.
    ///
    /// # Errors
    /// If the device has failed.
    fn guide_guesses(&mut self, slot: usize, masks: Vec<Promise>) -> Result<(), ExecuteError>;

    /// Whether the last step left a slot unchanged because its mask was missing.
    fn awaits_mask(&self, slot: usize) -> bool;

    /// For each token that the last run of a slot chose: that token, then the most probable ones in order. Empty unless its
    /// sampler's parameters request them.
    fn scored(&self, slot: usize) -> &[Vec<Scored>];

    /// The next token and position of a slot.
    fn state_of(&self, slot: usize) -> StepState;

    /// The next token and position of the active slot.
    fn state(&self) -> StepState {
        self.state_of(self.active())
    }

    /// Runs a prepared tape of a prompt in the active slot. Rows without a token are padding.
    ///
    /// # Errors
    /// A token outside the vocabulary, a position outside the context, logits that are not finite, or a device that fails. The
    /// state of the slot is then unchanged.
    fn run(&mut self, tape: &Tape, tokens: &[u32]) -> Result<(), ExecuteError> {
        self.run_until(tape, tokens, None).map(drop)
    }

    /// Runs a prompt as `run` does, and calls `preempts` between half layers to learn whether to preempt it there.
    ///
    /// A later call with the same rows continues with the same bits, whatever has run in other slots meanwhile. Recorded
    /// prompts are never preempted, and at most `PREEMPTED` prompts are preempted at the same time.
    ///
    /// # Errors
    /// As `run`.
    fn run_until(
        &mut self,
        tape: &Tape,
        tokens: &[u32],
        preempts: PreemptPrompt<'_>,
    ) -> Result<Pass, ExecuteError>;

    /// Never chooses these tokens without a guide: they stand for parts of images in a prompt. The default does nothing,
    /// because a backend without images has no use for them.
    fn refuse_tokens(&mut self, _tokens: &[u32], _vocabulary: usize) {}

    /// Whether prompts can have images.
    fn takes_images(&self) -> bool {
        false
    }

    /// Runs a prepared tape of a prompt with images in the active slot, as `run_until` does. It is never recorded. A call that
    /// continues a preempted prompt must have the same images.
    ///
    /// # Errors
    /// As `run`; images that do not fit the tape, or that the backend does not compute.
    fn run_images(
        &mut self,
        _tape: &Tape,
        _prompt: &ImagePrompt<'_>,
        _preempts: PreemptPrompt<'_>,
    ) -> Result<Pass, ExecuteError> {
        Err(ImageError::Unsupported.into())
    }

    /// Sets the distance from a row's position in the cache to the position that it rotates by, for the following rows of text
    /// of a slot. `begin` sets it to 0.
    ///
    /// # Errors
    /// If the backend does not compute images.
    fn set_rotary_offset(&mut self, _slot: usize, offset: isize) -> Result<(), ExecuteError> {
        if offset == 0 {
            return Ok(());
        }
        Err(ImageError::Unsupported.into())
    }

    /// Discards the preempted prompt of a slot. `begin` does so too.
    fn discard_preempted(&mut self, slot: usize);

    /// Launches the first layers of a prompt after pending steps, so that the device is not idle while their tokens are
    /// taken. `run_until` with the same rows continues it. The default does nothing.
    ///
    /// # Errors
    /// As `run`.
    fn start_prompt(&mut self, _tape: &Tape, _tokens: &[u32]) -> Result<(), ExecuteError> {
        Ok(())
    }

    /// Runs a prepared step of the active slot. With `more`, a device may launch the following step before this step's token
    /// has been read. An unwanted step costs time only.
    ///
    /// # Errors
    /// As `run`.
    fn step(&mut self, tape: &Tape, more: bool) -> Result<(), ExecuteError> {
        let slots = [self.active()];
        let slots = &slots[..];
        let behind = more.then_some(Behind {
            tape,
            slots,
            cut: false,
            preempts: None,
        });
        self.step_rows(tape, slots, &[], None, behind).map(drop)
    }

    /// Runs a prepared step with a row for each element of `slots`. Further rows of the tape are padding.
    ///
    /// A slot may occur in several adjacent rows, of which all but the first have `given` tokens: forced ones, then guesses. The
    /// last row before the guesses chooses a token, and so does each row of a guess, as if the guesses before it had been chosen.
    /// The slot advances by the forced tokens, by the first of the chosen ones and by one more for each guess that equals the
    /// token before it, up to the first that does not. If masks limit the slot, those after guesses are the ones of
    /// `guide_guesses`.
    ///
    /// The step may be one that was launched ahead, and `behind` may have other slots. Without `given` tokens, `preempts` is
    /// called between parts of the step. A preempted step continues with the same bits when the same slots run again; a step
    /// of other slots discards it.
    ///
    /// # Errors
    /// As `run`. A step that does not fit the context fails before anything runs.
    fn step_rows(
        &mut self,
        tape: &Tape,
        slots: &[usize],
        given: &[Given],
        preempts: PreemptStep<'_>,
        behind: Option<Behind<'_>>,
    ) -> Result<Pass, ExecuteError>;

    /// Runs a prepared pass of a head, a tape that `guesses`: the rows of each of `slots`, at least two, from its token and
    /// position on, of which all but the first have `given` tokens. Returns the token that the head guesses after each row,
    /// as if the tokens before it had been chosen. There is none after logits that are not finite. The masks of conversations
    /// limit no guess, and none is waited for.
    ///
    /// The rows of a tape that `assists` have no positions of their own: all rows of a slot see those before its position, and
    /// rotate by its position.
    ///
    /// No slot changes, apart from K and V of the head at the positions of these rows, which no chosen token has yet. A step
    /// that is ahead is discarded.
    ///
    /// # Errors
    /// As `step_rows`.
    fn guess_rows(
        &mut self,
        tape: &Tape,
        slots: &[usize],
        given: &[u32],
    ) -> Result<Vec<Option<u32>>, ExecuteError>;

    /// Preempts the step that was launched ahead, unless most of it has been launched. Returns whether a step is preempted.
    ///
    /// # Errors
    /// If the device has failed.
    fn preempt_step(&mut self, tape: &Tape) -> Result<bool, ExecuteError>;

    /// Whether a step is preempted.
    fn is_step_preempted(&self) -> bool;

    /// Waits for launched work. A device may still compute after a call has returned.
    ///
    /// # Errors
    /// If the device has failed.
    fn finish(&mut self) -> Result<(), ExecuteError> {
        Ok(())
    }

    /// Whether a step was launched whose tokens have not been taken. `step_rows` of the same slots takes them; a step of other
    /// slots, or a prompt, discards them.
    fn is_ahead(&self) -> bool {
        false
    }

    /// Waits for steps that were launched ahead and discards their tokens. The slots keep their positions.
    ///
    /// # Errors
    /// If the device has failed.
    fn discard_ahead(&mut self) -> Result<(), ExecuteError> {
        Ok(())
    }

    /// Records a prepared tape of a prompt for a slot, without running it.
    ///
    /// # Errors
    /// If the device has failed.
    fn record(&mut self, tape: &Tape, slot: usize) -> Result<(), ExecuteError>;

    /// How the last step spent its time.
    fn step_times(&self) -> StepTimes;
}

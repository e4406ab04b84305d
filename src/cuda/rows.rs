//! One step: its checks, its launch, the masks that are sent meanwhile, and its tokens.

use std::time::Duration;

use super::{AHEAD, Cuda, Launched};
use crate::executor::{Behind, ExecuteError, Given, Pass, PreemptStep};
use crate::tape::Tape;

impl Cuda {
    /// Runs a step, as `Steps::step_rows` describes.
    pub(super) fn run_rows(
        &mut self,
        (tape, slots, given): (&Tape, &[usize], &[Given]),
        preempts: PreemptStep<'_>,
        behind: Option<Behind<'_>>,
    ) -> Result<Pass, ExecuteError> {
        for slot in slots {
            let rows = slots.iter().filter(|other| *other == slot).count();
            self.fits(*slot, rows)?;
        }
        for slot in forced(slots, given) {
            // A step with forced tokens cannot be repeated.
            self.settle_mask(slot)?;
        }
        // A whole step ahead may have other slots too, which stay unchanged. A partial step continues with the same slots.
        let serves = |step: &Launched| {
            let of = step.slots();
            of == slots || step.is_whole() && slots.iter().all(|slot| of.contains(slot))
        };
        if !given.is_empty() || !self.ahead().is_none_or(serves) {
            self.discard_in_flight();
        }
        self.resume_step(tape)?;
        let idle = self.idle_since.take().filter(|_| self.pending.is_empty());
        self.base.times.idle = idle.map_or(Duration::ZERO, |since| since.elapsed());
        if self.pending.is_empty() {
            let cut = preempts.is_some() && given.is_empty();
            self.launch(tape, slots, given, cut)?;
        }
        if self.finish_step(tape, preempts)? == Pass::Preempted {
            return Ok(Pass::Preempted);
        }
        // A slot of the running step whose token is not taken now cannot be in the next step: its command is not known yet.
        let can_continue = |slot: &usize| {
            let steps = slots.contains(slot);
            let fits = self.fits(*slot, 1 + usize::from(steps)).is_ok();
            fits && (steps || !self.is_launched(*slot))
        };
        let behind = behind.filter(|one| given.is_empty() && one.slots.iter().all(can_continue));
        if let Some(behind) = behind.filter(|_| self.pending.len() < AHEAD) {
            self.launch_behind(behind)?;
        }
        self.send_late(None)?;
        self.take_tokens(1, given, slots)?;
        Ok(Pass::Ended)
    }
}

/// The slots whose rows but the first have forced tokens.
fn forced(slots: &[usize], given: &[Given]) -> impl Iterator<Item = usize> {
    let later = slots.windows(2).filter(|pair| pair[0] == pair[1]);
    let forced = later.zip(given).filter(|(_, given)| !given.is_guess());
    forced.map(|(pair, _)| pair[0])
}

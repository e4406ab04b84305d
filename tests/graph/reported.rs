//! The events of the decode graph: they describe its whole life cycle.

use ganglion::graph::{Counters, Event, InvalidationReason, LifeCycle, Mode, Renewal, State};
use ganglion::trial::refusals::same;

/// The graph's state according to the events.
#[derive(Debug, Default)]
pub(super) struct Reported {
    /// `None` before the first event.
    state: Option<State>,
    /// The reason of the recording, or the change that was verified.
    reason: Option<InvalidationReason>,
    epoch: u64,
    counters: Counters,
}

impl Reported {
    pub(super) fn receive(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Changed { epoch, .. } => {
                same("the next epoch", epoch, self.epoch + 1)?;
                self.epoch = epoch;
            }
            Event::Invalidated { epoch, .. } => {
                if self.state == Some(State::Invalid) {
                    return Err("no transition: it was invalid".into());
                }
                self.at(State::Invalid, epoch)?;
            }
            Event::Recorded { reason, epoch, .. } => {
                self.counters.recordings += 1;
                self.reason = Some(reason);
                self.at(State::Valid, epoch)?;
            }
            Event::Verified { reason, epoch, .. } => {
                same("verified", self.state, Some(State::Invalid))?;
                self.counters.verified += 1;
                self.reason = Some(reason);
                self.at(State::Valid, epoch)?;
            }
            Event::Renewed { renewal, .. } => match renewal {
                Renewal::Updated => self.counters.updates += 1,
                Renewal::Instantiated => self.counters.instantiations += 1,
            },
            Event::Failed { epoch, state, .. } => {
                self.counters.failures += 1;
                self.at(state, epoch)?;
            }
            Event::Disabled { epoch, .. } => {
                self.counters.failures += 1;
                self.at(State::Disabled, epoch)?;
            }
            Event::Off { epoch } => self.at(State::Disabled, epoch)?,
        }
        Ok(())
    }

    fn at(&mut self, state: State, epoch: u64) -> Result<(), String> {
        self.state = Some(state);
        same("the new epoch", epoch, self.epoch)
    }

    pub(super) fn check(&self, life: &LifeCycle) -> Result<(), String> {
        let first = match life.mode() {
            Mode::None => State::Disabled,
            _ => State::Invalid,
        };
        same(
            "the reported state",
            self.state.unwrap_or(first),
            life.state(),
        )?;
        if life.state() == State::Valid {
            same(
                "the reported reason",
                self.reason.as_ref(),
                Some(life.reason()),
            )?;
        }
        same("the reported epoch", self.epoch, life.epoch())?;
        let counted = Counters {
            launches: 0,
            eager_steps: 0,
            ..life.counters()
        };
        same("the reported counters", self.counters, counted)
    }
}

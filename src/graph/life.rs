//! The life cycle of the decode graph: its states, transitions and events. Every transition is one method.
//!
//! This module records and launches nothing; `decode` does, and calls these methods.

use std::time::Duration;

use super::event::{Counters, Event, InvalidationReason, Refused, Renewal, State};
use super::mode::Mode;
use crate::kv::Change;

/// Consecutive failures that disable recording.
pub const MOST_FAILURES: u32 = 3;

/// The state and its history.
#[derive(Clone, Debug)]
pub struct LifeCycle {
    state: State,
    reason: InvalidationReason,
    mode: Mode,
    /// The epoch of the KV cache at its last change.
    epoch: u64,
    /// Kernels of one replay.
    nodes: usize,
    /// Consecutive failures.
    failures: u32,
    counters: Counters,
    last_error: Option<String>,
    last_recording: Duration,
    /// Whether the executor has run its first step, which is always eager.
    warm: bool,
    /// The change of the cache that made a valid graph invalid, until the addresses have been compared.
    unverified: Option<Change>,
    /// The number of events that made all recordings invalid.
    validity: u64,
    /// The last reported state, and whether the mode `none` is its reason.
    reported: (State, bool),
    events: Vec<Event>,
}

impl LifeCycle {
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        let mut new = Self {
            state: State::Invalid,
            reason: InvalidationReason::Start,
            mode,
            epoch: 0,
            nodes: 0,
            failures: 0,
            counters: Counters::default(),
            last_error: None,
            last_recording: Duration::ZERO,
            warm: false,
            unverified: None,
            validity: 0,
            reported: (State::Invalid, false),
            events: Vec::new(),
        };
        if mode == Mode::None {
            new.to(State::Disabled, InvalidationReason::Mode);
        }
        // The first state is not an event.
        new.reported = new.to_report();
        new
    }

    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    #[must_use]
    pub fn reason(&self) -> &InvalidationReason {
        &self.reason
    }

    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Consecutive failures.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    #[must_use]
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// The duration of the last recording, without its launch.
    #[must_use]
    pub fn last_recording(&self) -> Duration {
        self.last_recording
    }

    /// Returns the events since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Continues the history of the executor that this one replaces. The state stays this executor's.
    pub fn succeed(&mut self, before: &mut Self) {
        self.counters = before.counters.and(self.counters);
        self.epoch = before.epoch;
        self.last_error = self.last_error.take().or(before.last_error.take());
        if self.last_recording.is_zero() {
            self.last_recording = before.last_recording;
        }
        let later = std::mem::replace(&mut self.events, before.take_events());
        self.events.extend(later);
        // The transition is reported with the change of the cache that follows.
        self.reported = before.reported;
    }

    /// Whether the next step is recorded or replayed.
    pub(super) fn serves(&self) -> bool {
        self.warm && self.state != State::Disabled
    }

    /// Notes a change of the cache other than one more token of the turn.
    ///
    /// Recordings are compared with the current addresses before their next replay. A resized or unloaded cache makes them
    /// invalid at once.
    pub fn change(&mut self, change: Change, epoch: u64) {
        self.epoch = epoch;
        let recorded = self.state == State::Valid || self.is_unverified();
        let moves = matches!(change, Change::Resized | Change::Unloaded);
        match self.state {
            State::Valid | State::Invalid if recorded && !moves => {
                (self.state, self.reason) = (State::Invalid, InvalidationReason::Kv(change));
                self.unverified = Some(change);
            }
            State::Valid | State::Invalid => {
                self.to(State::Invalid, InvalidationReason::Kv(change));
            }
            State::Recording | State::Disabled => {}
        }
        self.events.push(Event::Changed {
            change,
            epoch,
            state: self.state,
        });
        self.report();
    }

    /// A number that changes when all recordings become invalid.
    pub(super) fn validity(&self) -> u64 {
        self.validity
    }

    /// Whether only a change of the cache has made the graph invalid, so that the recording may still fit.
    pub(super) fn is_unverified(&self) -> bool {
        self.unverified.is_some()
    }

    /// Makes the graph valid again: every address and launch geometry is as recorded.
    pub(super) fn verified(&mut self) {
        if let Some(change) = self.unverified.take() {
            let (reason, epoch, nodes) = (InvalidationReason::Kv(change), self.epoch, self.nodes);
            self.state = State::Valid;
            self.reported = self.to_report();
            self.counters.verified += 1;
            self.events.push(Event::Verified {
                reason,
                epoch,
                nodes,
            });
        }
    }

    /// Makes the graph invalid: an address or a launch geometry differs from the recording.
    pub(super) fn moved(&mut self, what: Option<String>) {
        if self.state == State::Valid || self.is_unverified() {
            self.to(State::Invalid, InvalidationReason::Moved(what));
            self.report();
        }
    }

    /// Notes that a valid graph records a further number of rows.
    pub(super) fn grows(&mut self) {
        self.reason = InvalidationReason::Rows;
    }

    pub(super) fn recording(&mut self) {
        self.state = State::Recording;
    }

    /// Notes that one executable graph has taken its recording.
    pub(super) fn renewed(
        &mut self,
        segment: usize,
        renewal: Renewal,
        nodes: usize,
        time: Duration,
    ) {
        match renewal {
            Renewal::Updated => self.counters.updates += 1,
            Renewal::Instantiated => self.counters.instantiations += 1,
        }
        self.events.push(Event::Renewed {
            segment,
            renewal,
            nodes,
            time,
        });
    }

    /// Makes the graph valid. `updated` says whether every executable graph was updated in place.
    pub(super) fn recorded(&mut self, nodes: usize, updated: bool, time: Duration) {
        self.state = State::Valid;
        self.reported = self.to_report();
        self.unverified = None;
        self.nodes = nodes;
        self.last_recording = time;
        self.counters.recordings += 1;
        self.events.push(Event::Recorded {
            reason: self.reason.clone(),
            epoch: self.epoch,
            nodes,
            updated,
            time,
        });
    }

    /// Notes that the step itself failed during a recording.
    pub(super) fn abandoned(&mut self) {
        if self.state == State::Recording {
            self.to(State::Invalid, self.reason.clone());
        }
    }

    /// Counts a replayed step.
    pub(super) fn launched(&mut self) {
        self.counters.launches += 1;
    }

    /// Counts an eager step.
    pub(super) fn ran_eagerly(&mut self) {
        self.counters.eager_steps += 1;
        self.warm = true;
    }

    /// Ends a series of failures: the token of a replay has arrived, which shows that replays work.
    pub fn completed(&mut self) {
        self.failures = 0;
    }

    /// Notes that the driver refused a call of a recording or a replay.
    pub(super) fn refused(&mut self, refused: Refused) {
        self.failed(State::Invalid, InvalidationReason::Refused, refused);
    }

    /// Notes that the driver refused a call of a recorded prompt. The decode graph's state stays, unless this failure disables
    /// recording.
    pub(super) fn prompt_refused(&mut self, refused: Refused) {
        self.failed(self.state, self.reason.clone(), refused);
    }

    /// Counts a failure and sets the state, or disables recording after too many failures.
    fn failed(&mut self, state: State, reason: InvalidationReason, refused: Refused) {
        self.failures += 1;
        self.counters.failures += 1;
        self.last_error = Some(refused.text.clone());
        let (epoch, failures) = (self.epoch, self.failures);
        let event = if failures < MOST_FAILURES {
            if (state, &reason) != (self.state, &self.reason) {
                self.to(state, reason);
            }
            Event::Failed {
                refused,
                epoch,
                failures,
                state,
            }
        } else {
            self.to(State::Disabled, InvalidationReason::Refused);
            Event::Disabled { refused, epoch }
        };
        self.reported = self.to_report();
        self.events.push(event);
    }

    /// Sets the mode and forgets earlier failures. The mode `none` disables recording.
    pub(super) fn reset(&mut self, mode: Mode, reason: InvalidationReason) {
        self.mode = mode;
        self.failures = 0;
        self.nodes = 0;
        if mode == Mode::None {
            self.to(State::Disabled, InvalidationReason::Mode);
        } else {
            self.to(State::Invalid, reason);
        }
        self.report();
    }

    fn to(&mut self, state: State, reason: InvalidationReason) {
        self.state = state;
        self.reason = reason;
        self.unverified = None;
        self.validity += 1;
    }

    /// Adds an event if the state differs from the last reported one. A new reason alone is not reported.
    fn report(&mut self) {
        if self.reported == self.to_report() {
            return;
        }
        let epoch = self.epoch;
        match self.state {
            State::Invalid => {
                let reason = self.reason.clone();
                self.events.push(Event::Invalidated { reason, epoch });
            }
            State::Disabled if self.mode == Mode::None => self.events.push(Event::Off { epoch }),
            // These states are reported by their transitions, with details.
            State::Recording | State::Valid | State::Disabled => return,
        }
        self.reported = self.to_report();
    }

    fn to_report(&self) -> (State, bool) {
        (self.state, self.mode == Mode::None)
    }
}

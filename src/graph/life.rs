//! The life cycle of the decode graph: its states, what leads from one to another, and what it tells of itself.
//!
//! It records and launches nothing: `decode` does, and reports here. Every transition is one method.

use std::time::Duration;

use super::event::{Counters, Event, InvalidationReason, Refused, State};
use super::{Mode, Renewal};
use crate::kv::Change;

/// Failures in a row after which no more recording is tried.
pub const MOST_FAILURES: u32 = 3;

/// The state and its history.
#[derive(Clone, Debug)]
pub struct LifeCycle {
    state: State,
    reason: InvalidationReason,
    mode: Mode,
    /// The KV cache had this one at its last change.
    epoch: u64,
    /// Kernels of one replay.
    nodes: usize,
    /// So many came in a row.
    failures: u32,
    counters: Counters,
    last_error: Option<String>,
    last_recording: Duration,
    /// The first step of an executor runs eagerly, and its token counts.
    warm: bool,
    /// The change of the cache that has made a valid graph invalid, until it has been looked at: it may be as good as before.
    unverified: Option<Change>,
    /// Counts what has made all that was recorded invalid.
    validity: u64,
    /// What was told last: the state, and whether the mode `none` is why.
    told: (State, bool),
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
            told: (State::Invalid, false),
            events: Vec::new(),
        };
        if mode == Mode::None {
            new.to(State::Disabled, InvalidationReason::Mode);
        }
        // As it begins, nothing has happened yet.
        new.told = new.to_tell();
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

    /// Failures in a row.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    #[must_use]
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// What the last recording took, without its launch.
    #[must_use]
    pub fn last_recording(&self) -> Duration {
        self.last_recording
    }

    /// What happened since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Goes on where the life cycle of another executor ends, whose cache is gone: the state is this one's, the
    /// history is of both.
    pub fn succeed(&mut self, before: &mut Self) {
        self.counters = before.counters.and(self.counters);
        self.epoch = before.epoch;
        self.last_error = self.last_error.take().or(before.last_error.take());
        if self.last_recording.is_zero() {
            self.last_recording = before.last_recording;
        }
        let later = std::mem::replace(&mut self.events, before.take_events());
        self.events.extend(later);
        // The change of the cache that comes with it makes the transition.
        self.told = before.told;
    }

    /// Whether the next step is to be recorded or replayed at all.
    pub(super) fn serves(&self) -> bool {
        self.warm && self.state != State::Disabled
    }

    /// The cache changed other than by one more token of the turn: what is recorded is looked at before it is replayed again,
    /// but for one that is of a cache that is gone.
    pub fn change(&mut self, change: Change, epoch: u64) {
        self.epoch = epoch;
        let recorded = self.state == State::Valid || self.is_unverified();
        match self.state {
            State::Valid | State::Invalid if recorded && change != Change::Resized => {
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
        self.tell();
    }

    /// Differs from what it was when something was recorded, if that is invalid since.
    pub(super) fn validity(&self) -> u64 {
        self.validity
    }

    /// Whether it is invalid for a change of the cache alone, and may be as it was recorded.
    pub(super) fn is_unverified(&self) -> bool {
        self.unverified.is_some()
    }

    /// Every address and launch geometry is as it was recorded.
    pub(super) fn verified(&mut self) {
        if let Some(change) = self.unverified.take() {
            let (reason, epoch, nodes) = (InvalidationReason::Kv(change), self.epoch, self.nodes);
            self.state = State::Valid;
            self.told = self.to_tell();
            self.counters.verified += 1;
            self.events.push(Event::Verified {
                reason,
                epoch,
                nodes,
            });
        }
    }

    /// An address or a launch geometry is not what it was recorded with.
    pub(super) fn moved(&mut self, what: Option<String>) {
        if self.state == State::Valid || self.is_unverified() {
            self.to(State::Invalid, InvalidationReason::Moved(what));
            self.tell();
        }
    }

    /// A step has a number of rows that none had since it became valid, and so is recorded.
    pub(super) fn grows(&mut self) {
        self.reason = InvalidationReason::Rows;
    }

    pub(super) fn recording(&mut self) {
        self.state = State::Recording;
    }

    /// An executable graph, or a segment of it, does what was recorded.
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

    /// All of it has been recorded; `updated` if every executable graph took it in place.
    pub(super) fn recorded(&mut self, nodes: usize, updated: bool, time: Duration) {
        self.state = State::Valid;
        self.told = self.to_tell();
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

    /// The step failed by itself while it was being recorded.
    pub(super) fn abandoned(&mut self) {
        if self.state == State::Recording {
            self.to(State::Invalid, self.reason.clone());
        }
    }

    /// A step was replayed.
    pub(super) fn launched(&mut self) {
        self.counters.launches += 1;
    }

    /// A step ran kernel by kernel.
    pub(super) fn ran_eagerly(&mut self) {
        self.counters.eager_steps += 1;
        self.warm = true;
    }

    /// The token of a replay has arrived: only that shows that it works.
    pub fn arrived(&mut self) {
        self.failures = 0;
    }

    /// The driver refused a call of a recording or a replay.
    pub(super) fn refused(&mut self, refused: Refused) {
        self.failed(State::Invalid, InvalidationReason::Refused, refused);
    }

    /// The driver refused a call of a recorded prompt: the decode graph is as good as before, until that has
    /// happened too often.
    pub(super) fn prompt_refused(&mut self, refused: Refused) {
        self.failed(self.state, self.reason.clone(), refused);
    }

    /// One failure more, after which it is as said unless it is one too many.
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
        self.told = self.to_tell();
        self.events.push(event);
    }

    /// Starts anew, whatever has failed before; the mode `none` stays disabled.
    pub(super) fn reset(&mut self, mode: Mode, reason: InvalidationReason) {
        self.mode = mode;
        self.failures = 0;
        self.nodes = 0;
        if mode == Mode::None {
            self.to(State::Disabled, InvalidationReason::Mode);
        } else {
            self.to(State::Invalid, reason);
        }
        self.tell();
    }

    fn to(&mut self, state: State, reason: InvalidationReason) {
        self.state = state;
        self.reason = reason;
        self.unverified = None;
        self.validity += 1;
    }

    /// Tells of another state than the one that was told last. Why an invalid graph is invalid may change without a word,
    /// for it is recorded but once.
    fn tell(&mut self) {
        if self.told == self.to_tell() {
            return;
        }
        let epoch = self.epoch;
        match self.state {
            State::Invalid => {
                let reason = self.reason.clone();
                self.events.push(Event::Invalidated { reason, epoch });
            }
            State::Disabled if self.mode == Mode::None => self.events.push(Event::Off { epoch }),
            // Told where they happen, with what is known of them there.
            State::Recording | State::Valid | State::Disabled => return,
        }
        self.told = self.to_tell();
    }

    fn to_tell(&self) -> (State, bool) {
        (self.state, self.mode == Mode::None)
    }
}

//! The rate limit for events that callers cause: each user may cause a burst, and after that a steady rate.
//!
//! A request that is cancelled at once costs its caller almost nothing, but each journal entry takes space. Events
//! beyond the rate are counted, and a summary reports the counts. Events that no caller causes are never limited.
//! Events below "info", which an operator has enabled with `log.level`, have a separate, higher limit.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use tracing::Level;

/// Events of one user that are reported without delay.
const BURST: u32 = 60;
/// The part of `BURST` that only warnings and errors may use, so that successes never crowd out failures.
const FOR_WARNINGS: u32 = 20;
/// The time after which a user may cause one more event.
const INTERVAL: Duration = Duration::from_secs(1);
/// `BURST` for a user's events below "info": one request causes several.
const FINE_BURST: u32 = 1000;
const FINE_INTERVAL: Duration = Duration::from_millis(10);
/// The least time between two summaries of one user.
const PAUSE: Duration = Duration::from_secs(60);

/// The user who caused an event; `None` if a caller caused it and its user is unknown.
pub(super) type Cause = Option<u32>;

/// The cause of an event of an unknown caller.
pub(super) const ANY: Cause = None;

/// A user, and whether the account is for events below "info".
type Key = (Cause, bool);

/// The accounts of users who caused events recently.
#[derive(Debug, Default)]
pub(super) struct Callers(BTreeMap<Key, Account>);

#[derive(Debug)]
struct Account {
    /// The time at which the reported events would be paid for, at one event an interval.
    paid_until: Instant,
    /// The events that were left out, by kind, and the time of the first.
    left_out: Option<(Instant, BTreeMap<&'static str, u64>)>,
}

/// A summary of events of one user that were not reported.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) cause: Cause,
    events: BTreeMap<&'static str, u64>,
}

impl Callers {
    /// Decides whether an event is reported; otherwise counts it.
    pub(super) fn admit(
        &mut self,
        cause: Cause,
        event: &'static str,
        level: Level,
        now: Instant,
    ) -> bool {
        let key = (cause, level > Level::INFO);
        if !self.0.contains_key(&key) {
            // An account without recent events equals a new one.
            self.0
                .retain(|_, account| now < account.paid_until || account.left_out.is_some());
        }
        let account = self.0.entry(key).or_insert(Account {
            paid_until: now,
            left_out: None,
        });
        let (burst, interval) = match level {
            Level::ERROR | Level::WARN => (BURST, INTERVAL),
            Level::INFO => (BURST - FOR_WARNINGS, INTERVAL),
            _ => (FINE_BURST, FINE_INTERVAL),
        };
        let paid_until = account.paid_until.max(now) + interval;
        if paid_until <= now + burst * interval {
            account.paid_until = paid_until;
            return true;
        }
        let (_, events) = account
            .left_out
            .get_or_insert_with(|| (now, BTreeMap::new()));
        *events.entry(event).or_default() += 1;
        false
    }

    /// Returns the time at which the next summary is due.
    pub(super) fn next(&self) -> Option<Instant> {
        let since = self
            .0
            .values()
            .filter_map(|account| account.left_out.as_ref());
        since.map(|(since, _)| *since + PAUSE).min()
    }

    /// Takes a summary that is due by `now`.
    pub(super) fn due(&mut self, now: Instant) -> Option<LeftOut> {
        self.take(|since| since + PAUSE <= now)
    }

    /// Takes a summary before it is due, at the end of the process.
    pub(super) fn last(&mut self) -> Option<LeftOut> {
        self.take(|_| true)
    }

    /// Takes the account of what was left out of a user's events.
    #[cfg(test)]
    fn last_of(&mut self, cause: Cause) -> Option<String> {
        let account = self.0.get_mut(&(cause, true))?;
        let (_, events) = account.left_out.take()?;
        Some(LeftOut { cause, events }.to_string())
    }

    fn take(&mut self, is_due: impl Fn(Instant) -> bool) -> Option<LeftOut> {
        self.0.iter_mut().find_map(|((cause, _), account)| {
            let (_, events) = account.left_out.take_if(|(since, _)| is_due(*since))?;
            Some(LeftOut {
                cause: *cause,
                events,
            })
        })
    }
}

impl LeftOut {
    /// The number of events.
    pub(super) fn count(&self) -> u64 {
        self.events.values().sum()
    }
}

/// Each kind with its number.
impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (event, count)) in self.events.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{event} {count}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_burst_then_a_steady_rate_and_summaries() {
        let mut callers = Callers::default();
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut admitted =
            |user, event, level, millis| callers.admit(Some(user), event, level, at(millis));
        // 5,000 events in 8 seconds.
        let cancelled = (0..5000).filter(|n| admitted(1, "finished", Level::INFO, n * 8 / 5));
        assert_eq!(
            cancelled.count(),
            47,
            "a burst of 40, and one for each second that has passed"
        );
        // Warnings still have room, but not without end.
        let wrong = (0..100).filter(|_| admitted(1, "failed", Level::WARN, 8000));
        assert_eq!(wrong.count(), 20 + 1);
        // Other users and unknown callers are not affected.
        assert!(admitted(2, "finished", Level::INFO, 8000));
        assert!(callers.admit(ANY, "graph", Level::INFO, at(8000)));

        // Events below "info" neither use that room nor depend on it.
        for n in 0..1001 {
            let admitted = callers.admit(Some(2), "began", Level::DEBUG, at(8000));
            assert_eq!(admitted, n < 1000);
        }
        assert!(callers.admit(Some(2), "finished", Level::INFO, at(8000)));
        let left_out = callers.last_of(Some(2));
        assert_eq!(left_out.as_deref(), Some("began 1"));

        let since = callers.next().expect("something was left out");
        assert_eq!(callers.due(at(8000)), None);
        let left_out = callers.due(since).expect("it is time");
        assert_eq!(left_out.cause, Some(1));
        assert_eq!(left_out.to_string(), "failed 79, finished 4953");
        assert_eq!(left_out.count(), 5032);
        assert_eq!((callers.due(since), callers.next()), (None, None));

        // Later the user has a full burst again, and quiet users are forgotten.
        let mut admitted = |millis| callers.admit(Some(3), "finished", Level::INFO, at(millis));
        assert_eq!((0..50).filter(|_| admitted(100_000)).count(), 40);
        assert_eq!(callers.0.len(), 1);
        let last = callers.last().expect("without waiting");
        assert_eq!(last.to_string(), "finished 10");
    }
}

//! How much of the journal callers can fill: each user a burst of events, then one a second.
//!
//! What `log.level` adds below "info" has an account of its own, with a higher rate: an operator has asked for it, and it
//! takes no room from the rest.
//!
//! A request that is cancelled as soon as it is made costs its caller next to nothing; an entry of the journal costs
//! everybody room in it. What is beyond the rate is not told, but counted, and the counts are told once a minute. Events
//! that no caller causes are never held back.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use tracing::Level;

/// Events of one user that may come at once.
const BURST: u32 = 60;
/// What of these is for warnings and errors: what goes well does not keep what goes wrong out of the journal.
const FOR_WARNINGS: u32 = 20;
/// A user may cause one more each.
const INTERVAL: Duration = Duration::from_secs(1);
/// The same for each user's events below "info", of which a request causes several.
const FINE_BURST: u32 = 1000;
const FINE_INTERVAL: Duration = Duration::from_millis(10);
/// The least time between two summaries of one user.
const PAUSE: Duration = Duration::from_secs(60);

/// The user whose doing an event is; nobody, where callers cause it and nothing tells which.
pub(super) type Cause = Option<u32>;

/// Callers cause it, and nothing tells which.
pub(super) const ANY: Cause = None;

/// Whose events, and whether those below "info".
type Key = (Cause, bool);

/// What users have caused of late.
#[derive(Debug, Default)]
pub(super) struct Callers(BTreeMap<Key, Account>);

#[derive(Debug)]
struct Account {
    /// When all that was told would have been told at one event an interval.
    paid_until: Instant,
    /// What was not told, and since when.
    left_out: Option<(Instant, BTreeMap<&'static str, u64>)>,
}

/// Events of one user that were not told.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) cause: Cause,
    events: BTreeMap<&'static str, u64>,
}

impl Callers {
    /// Whether this event is told. Otherwise it is counted.
    pub(super) fn admit(
        &mut self,
        cause: Cause,
        event: &'static str,
        level: Level,
        now: Instant,
    ) -> bool {
        let key = (cause, level > Level::INFO);
        if !self.0.contains_key(&key) {
            // Who has been quiet for so long is as one who never came.
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

    /// When the next summary is to be told.
    pub(super) fn next(&self) -> Option<Instant> {
        let since = self
            .0
            .values()
            .filter_map(|account| account.left_out.as_ref());
        since.map(|(since, _)| *since + PAUSE).min()
    }

    /// A summary that is to be told by `now`.
    pub(super) fn due(&mut self, now: Instant) -> Option<LeftOut> {
        self.take(|since| since + PAUSE <= now)
    }

    /// A summary, though it may not be time: at the end of the process.
    pub(super) fn last(&mut self) -> Option<LeftOut> {
        self.take(|_| true)
    }

    /// What of a user was left out.
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
    /// How many they are.
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
    fn a_user_has_a_burst_then_one_event_a_second_and_the_rest_is_told_in_one_a_minute() {
        let mut callers = Callers::default();
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut told =
            |user, event, level, millis| callers.admit(Some(user), event, level, at(millis));
        // 5,000 in 8 seconds.
        let cancelled = (0..5000).filter(|n| told(1, "finished", Level::INFO, n * 8 / 5));
        assert_eq!(
            cancelled.count(),
            47,
            "a burst of 40, and one for each second that has passed"
        );
        // What goes wrong still has room, but not for ever.
        let wrong = (0..100).filter(|_| told(1, "failed", Level::WARN, 8000));
        assert_eq!(wrong.count(), 20 + 1);
        // Another user is not concerned, nor is what nobody in particular has caused.
        assert!(told(2, "finished", Level::INFO, 8000));
        assert!(callers.admit(ANY, "graph", Level::INFO, at(8000)));

        // Nor does what log.level adds take room from it, or have none because of it.
        for n in 0..1001 {
            let told = callers.admit(Some(2), "began", Level::DEBUG, at(8000));
            assert_eq!(told, n < 1000);
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

        // Later it is as at first, and quiet users are forgotten.
        let mut told = |millis| callers.admit(Some(3), "finished", Level::INFO, at(millis));
        assert_eq!((0..50).filter(|_| told(100_000)).count(), 40);
        assert_eq!(callers.0.len(), 1);
        let last = callers.last().expect("without waiting");
        assert_eq!(last.to_string(), "finished 10");
    }
}

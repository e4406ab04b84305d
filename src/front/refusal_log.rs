//! Counts refusals by limit, and reports reached limits to the journal: the first refusal at once, then at most one event a
//! minute for each user and limit, or for each limit that all users share.
//!
//! A caller that repeats a refused call therefore cannot fill the journal.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::engine::{Client, Limit};
use crate::journal;

/// The least time between two events about one limit, or about one limit and user.
const PAUSE: Duration = Duration::from_secs(60);

/// All refusals by limit, and the limits that were reported lately.
#[derive(Debug, Default)]
pub(super) struct RefusalLog(Mutex<Refusals>);

#[derive(Debug, Default)]
struct Refusals {
    /// Refusals since the start, by the key of the limit.
    counts: BTreeMap<&'static str, u64>,
    reported: HashMap<(Option<u32>, Limit), Reported>,
}

#[derive(Debug)]
struct Reported {
    at: Instant,
    /// Refusals since then.
    more: u64,
}

impl RefusalLog {
    /// Reports that `limit` refused a call of `client`, unless it was reported within the last minute.
    pub(super) fn report(&self, client: &Client, limit: Limit) {
        let Some(refusals) = self.due(client.user, limit, Instant::now()) else {
            return;
        };
        let name = client.name.as_str();
        match limit {
            Limit::OfUser(key) => journal::limit_reached(name, client.user, key, refusals),
            Limit::OfAll(key) => journal::full(name, client.user, key, refusals),
        }
    }

    /// Returns the number of refusals by each limit since the start. A limit of the engine that was never reached has 0.
    pub(super) fn counts(&self) -> Vec<(&'static str, u64)> {
        let mut counts = self.0.lock().counts.clone();
        for key in Limit::KEYS {
            counts.entry(key).or_default();
        }
        counts.into_iter().collect()
    }

    /// Counts a refusal; returns the number of refusals to report, if a report is due.
    fn due(&self, user: u32, limit: Limit, now: Instant) -> Option<u64> {
        let (key, of) = match limit {
            Limit::OfUser(name) => (name, Some(user)),
            Limit::OfAll(name) => (name, None),
        };
        let mut refusals = self.0.lock();
        *refusals.counts.entry(key).or_default() += 1;
        let (key, reported) = ((of, limit), &mut refusals.reported);
        if let Some(last) = reported.get_mut(&key)
            && now < last.at + PAUSE
        {
            last.more += 1;
            return None;
        }
        let more = reported.remove(&key).map_or(0, |last| last.more);
        // Old entries go, so that the map stays small.
        reported.retain(|_, last| now < last.at + 10 * PAUSE);
        reported.insert(key, Reported { at: now, more: 0 });
        Some(more + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_of_refusals_is_one_event_for_each_user_and_limit() {
        let log = RefusalLog::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let due = |user, key, seconds| log.due(user, Limit::OfUser(key), at(seconds));
        assert_eq!(due(1, "a", 0), Some(1));
        assert_eq!([due(1, "a", 1), due(1, "a", 59)], [None, None]);
        assert_eq!([due(2, "a", 1), due(1, "b", 1)], [Some(1), Some(1)]);
        assert_eq!(due(1, "a", 60), Some(3), "with the refusals in between");
        assert_eq!(due(1, "a", 61), None);

        // A limit of all users is reported once, for whichever user.
        let due = |user, seconds| log.due(user, Limit::OfAll("a"), at(seconds));
        assert_eq!([due(1, 61), due(2, 62), due(1, 63)], [Some(1), None, None]);
        assert_eq!(due(2, 121), Some(3));
    }

    #[test]
    fn refusals_count_by_limit_whether_they_are_reported_or_not() {
        let log = RefusalLog::default();
        let now = Instant::now();
        for (user, limit) in [
            (1, Limit::OfUser("kv.context")),
            (1, Limit::OfUser("kv.context")),
            (2, Limit::OfUser("kv.context")),
            (2, Limit::OfAll("queue.capacity")),
        ] {
            log.due(user, limit, now);
        }
        let counts = log.counts();
        assert_eq!(counts.len(), Limit::KEYS.len());
        let counted: Vec<_> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [("kv.context", 3), ("queue.capacity", 1)]);
    }
}

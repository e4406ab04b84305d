//! Which limits were reached, for the journal: told at once, then at most once a minute for each user and limit, or for
//! each limit that all users share.
//!
//! A caller that asks again and again is refused each time, but cannot push all else out of the journal.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::engine::{Client, Limit};
use crate::journal;

/// The least time between two events about one limit; of one user, if it is a limit of users.
const PAUSE: Duration = Duration::from_secs(60);

/// What was told within the last minute.
#[derive(Debug, Default)]
pub(super) struct Complaints(Mutex<HashMap<(Option<u32>, Limit), Told>>);

#[derive(Debug)]
struct Told {
    at: Instant,
    /// Refusals since then.
    more: u64,
}

impl Complaints {
    /// `limit` was reached, by `client` or when it asked.
    pub(super) fn tell(&self, client: &Client, limit: Limit) {
        let Some(refusals) = self.due(client.user, limit, Instant::now()) else {
            return;
        };
        match limit {
            Limit::OfUser(key) => {
                journal::limit_reached(&client.name, client.user, key, refusals);
            }
            Limit::OfAll(key) => journal::full(&client.name, client.user, key, refusals),
        }
    }

    /// How many refusals to tell of, if it is time.
    fn due(&self, user: u32, limit: Limit, now: Instant) -> Option<u64> {
        let of = match limit {
            Limit::OfUser(_) => (Some(user), limit),
            Limit::OfAll(_) => (None, limit),
        };
        let mut told = self.0.lock();
        if let Some(last) = told.get_mut(&of)
            && now < last.at + PAUSE
        {
            last.more += 1;
            return None;
        }
        let more = told.remove(&of).map_or(0, |last| last.more);
        // Whoever has stopped asking is forgotten after a while.
        told.retain(|_, last| now < last.at + 10 * PAUSE);
        told.insert(of, Told { at: now, more: 0 });
        Some(more + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_of_refusals_is_one_event_for_each_user_and_limit() {
        let complaints = Complaints::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let due = |user, key, seconds| complaints.due(user, Limit::OfUser(key), at(seconds));
        assert_eq!(due(1, "a", 0), Some(1));
        assert_eq!([due(1, "a", 1), due(1, "a", 59)], [None, None]);
        assert_eq!([due(2, "a", 1), due(1, "b", 1)], [Some(1), Some(1)]);
        assert_eq!(due(1, "a", 60), Some(3), "with those that were not told");
        assert_eq!(due(1, "a", 61), None);

        // What concerns everyone is told once, whoever was refused.
        let due = |user, seconds| complaints.due(user, Limit::OfAll("a"), at(seconds));
        assert_eq!([due(1, 61), due(2, 62), due(1, 63)], [Some(1), None, None]);
        assert_eq!(due(2, 121), Some(3));
    }
}

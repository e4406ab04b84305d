//! Which limits were reached, for the journal: told at once, then at most once a minute for each user and limit.
//!
//! A caller that asks again and again is refused each time, but cannot push all else out of the journal.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::engine::Client;
use crate::journal;

/// The least time between two events of one user about one limit.
const PAUSE: Duration = Duration::from_secs(60);

/// What was told within the last minute.
#[derive(Debug, Default)]
pub(super) struct Complaints(Mutex<HashMap<(u32, &'static str), Told>>);

#[derive(Debug)]
struct Told {
    at: Instant,
    /// Refusals since then.
    more: u64,
}

impl Complaints {
    /// `limit` is the key that was reached.
    pub(super) fn tell(&self, client: &Client, limit: &'static str) {
        if let Some(refusals) = self.due(client.user, limit, Instant::now()) {
            journal::limit_reached(&client.name, client.user, limit, refusals);
        }
    }

    /// How many refusals to tell of, if it is time.
    fn due(&self, user: u32, limit: &'static str, now: Instant) -> Option<u64> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = told.get_mut(&(user, limit))
            && now < last.at + PAUSE
        {
            last.more += 1;
            return None;
        }
        let more = told.remove(&(user, limit)).map_or(0, |last| last.more);
        // Whoever has stopped asking is forgotten after a while.
        told.retain(|_, last| now < last.at + 10 * PAUSE);
        told.insert((user, limit), Told { at: now, more: 0 });
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
        let due = |user, limit, seconds| {
            complaints.due(user, limit, start + Duration::from_secs(seconds))
        };
        assert_eq!(due(1, "a", 0), Some(1));
        assert_eq!([due(1, "a", 1), due(1, "a", 59)], [None, None]);
        assert_eq!([due(2, "a", 1), due(1, "b", 1)], [Some(1), Some(1)]);
        assert_eq!(due(1, "a", 60), Some(3), "with those that were not told");
        assert_eq!(due(1, "a", 61), None);
    }
}

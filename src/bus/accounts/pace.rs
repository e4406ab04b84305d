//! Limits the rate of failed calls for each user: after a burst, further calls of the user wait.
//!
//! An error costs the daemon a fraction of a millisecond, so a program that repeats a failing call without a pause would
//! keep a processor busy. Successful calls are not limited here: other limits bound them.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// Errors that a user may get at once.
const BURST: u32 = 200;
/// The time in which a user may get one more.
const REFILL: Duration = Duration::from_millis(10);
/// A call costs once more for each piece of this size, because it is parsed before it fails.
const BYTES: usize = 16 << 10;
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(1);

/// The users who have got errors a short time ago.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The time at which a user may get `BURST` errors again.
    refilled: HashMap<u32, Instant>,
}

impl Pace {
    /// Notes an error as the answer to a call of that many bytes. Root has no limit.
    pub(super) fn failed(&mut self, user: u32, bytes: usize, now: Instant) {
        if user == 0 {
            return;
        }
        self.refilled.retain(|_, time| *time > now);
        let times = u32::try_from(1 + bytes / BYTES).unwrap_or(u32::MAX);
        let refilled = self.refilled.entry(user).or_insert(now);
        *refilled = (*refilled + REFILL * times).min(now + BURST * REFILL + LONGEST);
    }

    /// Returns the time until which calls of a user wait; `None` if they need not.
    pub(super) fn waits_until(&self, user: u32, now: Instant) -> Option<Instant> {
        let begin = self.refilled.get(&user)?.checked_sub(BURST * REFILL)?;
        (begin > now).then_some(begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_with_many_errors_waits_and_no_other_does() {
        let (user, other) = (1000, 1001);
        let mut pace = Pace::default();
        let now = Instant::now() + BURST * REFILL;
        for _ in 0..BURST {
            assert_eq!(pace.waits_until(user, now), None);
            pace.failed(user, 0, now);
            pace.failed(0, 0, now);
        }
        for number in 1..=3 {
            pace.failed(user, 0, now);
            assert_eq!(pace.waits_until(user, now), Some(now + number * REFILL));
        }
        pace.failed(user, BYTES, now);
        assert_eq!(pace.waits_until(user, now), Some(now + 5 * REFILL));
        assert_eq!(pace.waits_until(other, now), None);
        assert_eq!(pace.waits_until(0, now), None);
        assert_eq!(pace.waits_until(user, now + 5 * REFILL), None);
        pace.failed(user, 1 << 30, now);
        assert_eq!(pace.waits_until(user, now), Some(now + LONGEST));
    }
}

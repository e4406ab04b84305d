//! The prefill time that each user, and each of its connections, has had: start-time fair queueing.
//!
//! A tag grows by the time that was spent, and the smallest tag is next. Idle users save up nothing: a tag counts as at
//! least the tag that was served last, as it was when that began. So a user who was idle is next, and a user who floods gets
//! only what others leave. A prompt that comes before that of a user with a smaller tag, because it is short, does not raise
//! that user's tag. All tags are reset when the engine is idle, because nothing was taken from others then.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use crate::engine::caller::client::{Client, ConnectionName};

/// The prefill time that a user has had, and one of its connections. The least comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PrefillTime {
    pub(crate) user: Duration,
    pub(crate) connection: Duration,
}

/// The prefill times of all users.
#[derive(Debug, Default)]
pub(crate) struct PrefillTimes {
    users: Tags<u32>,
    /// The connections of users whose tag is above the least.
    connections: HashMap<u32, Tags<ConnectionName>>,
}

impl PrefillTimes {
    pub(crate) fn of(&self, Client { name, user }: &Client) -> PrefillTime {
        let connections = self.connections.get(user);
        let connection = connections.map(|connections| connections.of(name));
        PrefillTime {
            user: self.users.of(user),
            connection: connection.unwrap_or_default(),
        }
    }

    /// Adds prefill time that a connection has had, while the least time of users with as urgent prompts was `waiting`.
    pub(crate) fn add(
        &mut self,
        Client { name, user }: &Client,
        took: Duration,
        waiting: Duration,
    ) {
        self.users.add(*user, took, waiting);
        let connections = self.connections.entry(*user).or_default();
        connections.add(name.clone(), took, Duration::MAX);
        let users = &self.users;
        self.connections.retain(|user, _| users.knows(user));
    }

    /// Resets all prefill times.
    pub(crate) fn reset(&mut self) {
        self.users.tags.clear();
        self.connections.clear();
    }
}

#[derive(Debug)]
struct Tags<K> {
    /// Tags above `least`.
    tags: HashMap<K, Duration>,
    /// The tag of the one that was served last, as it was before, or the least that waited.
    least: Duration,
}

impl<K> Default for Tags<K> {
    fn default() -> Self {
        Self {
            tags: HashMap::new(),
            least: Duration::ZERO,
        }
    }
}

impl<K: Eq + Hash> Tags<K> {
    fn of(&self, one: &K) -> Duration {
        self.tags
            .get(one)
            .copied()
            .unwrap_or_default()
            .max(self.least)
    }

    fn knows(&self, one: &K) -> bool {
        self.tags.contains_key(one)
    }

    fn add(&mut self, one: K, took: Duration, waiting: Duration) {
        let began = self.of(&one);
        self.tags.insert(one, began + took);
        self.least = self.least.max(began.min(waiting));
        let least = self.least;
        self.tags.retain(|_, tag| *tag > least);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn client(user: u32, connection: u32) -> Client {
        Client {
            name: format!(":1.{connection}").into(),
            user,
        }
    }

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn an_idle_user_is_next_and_has_saved_up_nothing() {
        let mut prefill_times = PrefillTimes::default();
        let (one, other) = (client(1, 1), client(2, 2));
        (0..9).for_each(|_| prefill_times.add(&one, ms(20), Duration::MAX));
        assert!(prefill_times.of(&other) < prefill_times.of(&one));
        // It was idle while the other had 160 ms, and gets only one turn for that.
        prefill_times.add(&other, ms(30), Duration::MAX);
        assert!(prefill_times.of(&one) < prefill_times.of(&other));
    }

    #[test]
    fn time_that_a_user_had_alone_does_not_count() {
        let mut prefill_times = PrefillTimes::default();
        let (one, other) = (client(1, 1), client(2, 2));
        prefill_times.add(&one, ms(20), Duration::MAX);
        assert!(prefill_times.of(&other) < prefill_times.of(&one));
        prefill_times.reset();
        assert_eq!(prefill_times.of(&other), prefill_times.of(&one));
    }

    #[test]
    fn connections_of_a_user_share_its_time() {
        let mut prefill_times = PrefillTimes::default();
        let mut prefill_time = [Duration::ZERO; 3];
        let all = [client(1, 1), client(1, 2), client(2, 3)];
        for _ in 0..400 {
            let next = (0..3)
                .min_by_key(|at| prefill_times.of(&all[*at]))
                .unwrap_or(0);
            prefill_times.add(&all[next], ms(5), Duration::MAX);
            prefill_time[next] += ms(5);
        }
        assert_eq!(prefill_time, [ms(500), ms(500), ms(1000)]);
    }

    proptest! {
        /// Whatever slices cost, no busy user is ever ahead of another by more than a slice, and the number of tags is bounded.
        #[test]
        fn busy_users_get_equal_times(
            costs in proptest::collection::vec(1..50_u64, 1..6),
            passing in proptest::collection::vec((10..20_u32, 1..50_u64), 0..50),
        ) {
            let mut prefill_times = PrefillTimes::default();
            let all: Vec<_> = (0..).zip(&costs).map(|(user, cost)| (client(user, user), ms(*cost))).collect();
            let mut prefill_time = vec![Duration::ZERO; all.len()];
            let mut passing = passing.into_iter();
            for _ in 0..300 {
                let next = (0..all.len()).min_by_key(|at| prefill_times.of(&all[*at].0)).unwrap_or(0);
                let (client, cost) = &all[next];
                if let Some((user, cost)) = passing.next() {
                    let passes = self::client(user, user);
                    if prefill_times.of(&passes) <= prefill_times.of(client) {
                        prefill_times.add(&passes, ms(cost), Duration::MAX);
                    }
                }
                prefill_times.add(client, *cost, Duration::MAX);
                prefill_time[next] += *cost;
                let (least, most) = (prefill_time.iter().min(), prefill_time.iter().max());
                let (Some(least), Some(most)) = (least, most) else { continue };
                prop_assert!(*most <= *least + ms(100), "{prefill_time:?}");
                prop_assert!(prefill_times.users.tags.len() <= all.len() + 10);
                prop_assert!(prefill_times.connections.len() <= all.len() + 10);
            }
        }
    }
}

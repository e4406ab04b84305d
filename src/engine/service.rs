//! How much of the time in which prompts are read each user has had, and each of its connections: start-time fair queueing.
//!
//! A tag grows by the time that was spent, and who has the least of all is next. Whoever asks for nothing saves nothing up: a
//! tag counts as no less than the one that was served last had when it began. So whoever comes after a while is next, and a
//! user who floods gets what others leave. When nobody is left all begin anew: what one had while it was alone took nothing from
//! anybody.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use super::{Client, ConnectionName};

/// What a user has had, and then its connection: the least comes first.
pub(super) type Had = (Duration, Duration);

/// What all have had.
#[derive(Debug, Default)]
pub(super) struct Service {
    users: Tags<u32>,
    /// Connections are told apart of users who have had more than others.
    connections: HashMap<u32, Tags<ConnectionName>>,
}

impl Service {
    pub(super) fn had(&self, Client { name, user }: &Client) -> Had {
        let connections = self.connections.get(user);
        let connection = connections.map(|connections| connections.of(name));
        (self.users.of(user), connection.unwrap_or_default())
    }

    /// Somebody has had so much.
    pub(super) fn serve(&mut self, Client { name, user }: &Client, took: Duration) {
        self.users.serve(*user, took);
        let connections = self.connections.entry(*user).or_default();
        connections.serve(name.clone(), took);
        let users = &self.users;
        self.connections.retain(|user, _| users.knows(user));
    }

    /// Nobody is there.
    pub(super) fn rest(&mut self) {
        self.users.tags.clear();
        self.connections.clear();
    }
}

#[derive(Debug)]
struct Tags<K> {
    /// Only tags above the least are kept.
    tags: HashMap<K, Duration>,
    /// The one that was served last had this tag before it was.
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

    fn serve(&mut self, one: K, took: Duration) {
        let began = self.of(&one);
        self.tags.insert(one, began + took);
        self.least = self.least.max(began);
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
    fn who_comes_after_a_while_is_next_and_has_saved_nothing_up() {
        let mut service = Service::default();
        let (one, other) = (client(1, 1), client(2, 2));
        (0..9).for_each(|_| service.serve(&one, ms(20)));
        assert!(service.had(&other) < service.had(&one));
        // It has been away for 160 ms of the other's, and gets no more than its turn of them.
        service.serve(&other, ms(30));
        assert!(service.had(&one) < service.had(&other));
    }

    #[test]
    fn what_one_had_alone_is_held_against_nobody() {
        let mut service = Service::default();
        let (one, other) = (client(1, 1), client(2, 2));
        service.serve(&one, ms(20));
        assert!(service.had(&other) < service.had(&one));
        service.rest();
        assert_eq!(service.had(&other), service.had(&one));
    }

    #[test]
    fn connections_of_a_user_share_what_it_gets() {
        let mut service = Service::default();
        let mut had = [Duration::ZERO; 3];
        let all = [client(1, 1), client(1, 2), client(2, 3)];
        for _ in 0..400 {
            let next = (0..3).min_by_key(|at| service.had(&all[*at])).unwrap_or(0);
            service.serve(&all[next], ms(5));
            had[next] += ms(5);
        }
        assert_eq!(had, [ms(500), ms(500), ms(1000)]);
    }

    proptest! {
        /// Whatever slices cost: of those who always want more none is ever ahead of another by more than a slice, and what is
        /// remembered is bounded.
        #[test]
        fn who_always_wants_more_gets_as_much_as_the_others(
            costs in proptest::collection::vec(1..50_u64, 1..6),
            passing in proptest::collection::vec((10..20_u32, 1..50_u64), 0..50),
        ) {
            let mut service = Service::default();
            let all: Vec<_> = (0..).zip(&costs).map(|(user, cost)| (client(user, user), ms(*cost))).collect();
            let mut had = vec![Duration::ZERO; all.len()];
            let mut passing = passing.into_iter();
            for _ in 0..300 {
                let next = (0..all.len()).min_by_key(|at| service.had(&all[*at].0)).unwrap_or(0);
                let (client, cost) = &all[next];
                if let Some((user, cost)) = passing.next() {
                    let passes = self::client(user, user);
                    if service.had(&passes) <= service.had(client) {
                        service.serve(&passes, ms(cost));
                    }
                }
                service.serve(client, *cost);
                had[next] += *cost;
                let (least, most) = (had.iter().min(), had.iter().max());
                let (Some(least), Some(most)) = (least, most) else { continue };
                prop_assert!(*most <= *least + ms(100), "{had:?}");
                prop_assert!(service.users.tags.len() <= all.len() + 10);
                prop_assert!(service.connections.len() <= all.len() + 10);
            }
        }
    }
}

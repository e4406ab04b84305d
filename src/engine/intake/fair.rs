//! A fair queue: users alternate, then the connections of one user, then the oldest entry comes first.
//!
//! It counts entries, not their cost. An entry that lacks room is passed by smaller ones, but only a few times.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use crate::engine::caller::client::{Client, ConnectionName};

/// An entry of the queue.
pub(crate) trait Queued {
    fn client(&self) -> &Client;
}

/// How often an entry that lacks room is passed by others.
const MOST_PASSES: u32 = 8;

/// Whether an entry can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    Ready,
    /// It cannot be taken, for another reason than room.
    Blocked,
    /// There is too little room for it.
    NoRoom,
}

/// A fair queue of entries.
#[derive(Debug)]
pub(crate) struct Fair<T> {
    /// In the order of their arrival.
    waiting: VecDeque<Waiter<T>>,
    history: History,
}

#[derive(Debug)]
struct Waiter<T> {
    one: T,
    /// How many others were taken while it lacked room.
    passed: u32,
}

/// When users and connections were served.
#[derive(Debug, Default)]
pub(crate) struct History {
    users: Served<u32>,
    connections: Served<ConnectionName>,
}

/// What readers get of an entry.
#[derive(Clone, Debug)]
pub(crate) struct Seen<S> {
    pub(crate) one: S,
    pub(crate) client: Client,
    last: Last,
}

/// Returns how many of the entries that are `alike` are taken before one of them, if no other arrives.
pub(crate) fn before<S>(
    seen: &[Seen<S>],
    is_it: impl Fn(&S) -> bool,
    alike: impl Fn(&S) -> bool,
) -> Option<usize> {
    let it = &seen.iter().find(|seen| is_it(&seen.one))?.client;
    let alike: Vec<_> = seen.iter().filter(|seen| alike(&seen.one)).collect();
    let own = alike.iter().take_while(|seen| !is_it(&seen.one));
    let own = own.filter(|seen| seen.client.name == it.name).count();
    let of_user = alike.iter().filter(|seen| seen.client.user == it.user);
    let names = of_user.map(|seen| (&seen.client.name, seen.last.1));
    let of_user = own + turns_before(names, &it.name, own);
    let users = alike.iter().map(|seen| (&seen.client.user, seen.last.0));
    Some(of_user + turns_before(users, &it.user, of_user))
}

/// Returns how often others are served before `one` has been served `turns` times and is next. `waiting` has a key and its
/// last service for each entry.
fn turns_before<'a, K: Eq + Hash + 'a>(
    waiting: impl Iterator<Item = (&'a K, Option<u64>)>,
    one: &K,
    turns: usize,
) -> usize {
    // The last service and first arrival of each key, and the number of its entries.
    let mut all: HashMap<&K, ((Option<u64>, usize), usize)> = HashMap::new();
    for (at, (other, last)) in waiting.enumerate() {
        all.entry(other).or_insert(((last, at), 0)).1 += 1;
    }
    let own = all.get(one).map(|(rank, _)| *rank);
    let others = all.iter().filter(|(other, _)| **other != one);
    let before = others.map(|(_, (rank, count))| {
        let sooner = Some(*rank) < own;
        *count.min(&(turns + usize::from(sooner)))
    });
    before.sum()
}

/// When a user was served last, and one of its connections. The least comes first.
pub(crate) type Last = (Option<u64>, Option<u64>);

impl History {
    pub(crate) fn last(&self, Client { name, user }: &Client) -> Last {
        (self.users.last(user), self.connections.last(name))
    }

    /// Notes that a connection is served.
    pub(crate) fn serve(&mut self, Client { name, user }: &Client) {
        self.users.serve(*user);
        self.connections.serve(name.clone());
    }
}

impl<T> Default for Fair<T> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            history: History::default(),
        }
    }
}

impl<T: Queued> Fair<T> {
    pub(crate) fn push(&mut self, one: T) {
        self.waiting.push_back(Waiter { one, passed: 0 });
    }

    /// Removes and returns the next ready entry: of the least `rank`, of the user and then of the connection that were served
    /// least recently. Entries that lack room are passed, except one that has been passed too often.
    pub(crate) fn take<K: Ord>(
        &mut self,
        rank: impl Fn(&T) -> K,
        may: impl Fn(&T) -> Readiness,
    ) -> Option<T> {
        let mut order: Vec<_> = (0..self.waiting.len()).collect();
        order.sort_by_cached_key(|at| {
            let one = &self.waiting[*at].one;
            (rank(one), self.history.last(one.client()))
        });
        let mut lack = Vec::new();
        for at in order {
            let Waiter { one, passed } = &self.waiting[at];
            match may(one) {
                Readiness::Ready => {
                    self.history.serve(one.client());
                    for at in lack {
                        self.waiting[at].passed += 1;
                    }
                    return self.waiting.remove(at).map(|waiter| waiter.one);
                }
                Readiness::NoRoom if *passed >= MOST_PASSES => return None,
                Readiness::NoRoom => lack.push(at),
                Readiness::Blocked => {}
            }
        }
        None
    }

    /// Returns what readers get of all entries, in the order of their arrival.
    pub(crate) fn seen<S>(&self, see: impl Fn(&T) -> S) -> Vec<Seen<S>> {
        let seen = |one: &T| Seen {
            one: see(one),
            client: one.client().clone(),
            last: self.history.last(one.client()),
        };
        self.iter().map(seen).collect()
    }

    /// Removes and returns an entry, whether it is next or not.
    pub(crate) fn remove(&mut self, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let at = self.iter().position(is_it)?;
        self.waiting.remove(at).map(|waiter| waiter.one)
    }

    /// Removes and returns all entries, in the order of their arrival.
    pub(crate) fn drain(&mut self) -> VecDeque<T> {
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        waiting.map(|waiter| waiter.one).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.waiting.iter().map(|waiter| &waiter.one)
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// When keys were served. Keys without a waiting entry are remembered too, so that they gain nothing by coming back at once.
#[derive(Debug)]
struct Served<K> {
    last: HashMap<K, u64>,
    /// Services so far.
    turns: u64,
}

/// The number of services after which a key is forgotten.
const REMEMBERED: u64 = 1024;

impl<K> Default for Served<K> {
    fn default() -> Self {
        Self {
            last: HashMap::new(),
            turns: 0,
        }
    }
}

impl<K: Eq + Hash> Served<K> {
    /// Returns when a key was served last; `None`, which sorts first, if it never was.
    fn last(&self, one: &K) -> Option<u64> {
        self.last.get(one).copied()
    }

    fn serve(&mut self, one: K) {
        self.turns += 1;
        self.last.insert(one, self.turns);
        let turns = self.turns;
        self.last.retain(|_, last| *last + REMEMBERED > turns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Queued for (Client, u32) {
        fn client(&self) -> &Client {
            &self.0
        }
    }

    fn from(user: u32, connection: &str, number: u32) -> (Client, u32) {
        let name = connection.into();
        (Client { name, user }, number)
    }

    fn take(fair: &mut Fair<(Client, u32)>) -> Option<(Client, u32)> {
        fair.take(|_| 0, |_| Readiness::Ready)
    }

    fn order(fair: &mut Fair<(Client, u32)>) -> Vec<u32> {
        std::iter::from_fn(|| take(fair))
            .map(|(_, number)| number)
            .collect()
    }

    #[test]
    fn users_alternate_then_their_connections_then_first_come() {
        let mut fair = Fair::default();
        for number in 0..4 {
            fair.push(from(1, ":1.1", number));
        }
        for (user, connection, number) in [(1, ":1.2", 4), (2, ":1.3", 5), (2, ":1.3", 6)] {
            fair.push(from(user, connection, number));
        }
        assert_eq!(order(&mut fair), [0, 5, 4, 6, 1, 2, 3]);
    }

    /// Coming back at once gains nothing, also for a key without a waiting entry.
    #[test]
    fn a_served_user_comes_after_others() {
        let mut fair = Fair::default();
        (0..3).for_each(|number| fair.push(from(1, ":1.1", number)));
        let mut users = Vec::new();
        for number in 3..9 {
            fair.push(from(2, ":1.2", number));
            users.push(take(&mut fair).expect("several wait").0.user);
        }
        assert_eq!(users, [1, 2, 1, 2, 1, 2]);
    }

    #[test]
    fn how_many_come_before_one_is_known_beforehand() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..500 {
            let mut fair = Fair::default();
            let mut numbers = 0..;
            let mut come = |fair: &mut Fair<_>, random: &mut fastrand::Rng, many| {
                for number in numbers.by_ref().take(many) {
                    let connection = random.u32(0..6);
                    fair.push(from(connection / 2, &format!(":1.{connection}"), number));
                }
            };
            come(&mut fair, &mut random, 8);
            for _ in 0..random.usize(0..8) {
                take(&mut fair);
            }
            let many = random.usize(0..12);
            come(&mut fair, &mut random, many);
            let waiting: Vec<u32> = fair.iter().map(|(_, number)| *number).collect();
            let positions = waiting.iter().map(|number| {
                let seen = fair.seen(|(_, number)| *number);
                let before = before(&seen, |other| other == number, |_| true);
                (before.expect("it waits"), *number)
            });
            let mut positions: Vec<_> = positions.collect();
            positions.sort_unstable();
            let order = order(&mut fair);
            assert!(positions.into_iter().eq(order.into_iter().enumerate()));
        }
    }

    #[test]
    fn only_ready_entries_are_taken() {
        let mut fair = Fair::default();
        [(1, 0), (2, 1), (1, 2)]
            .into_iter()
            .for_each(|(user, number)| fair.push(from(user, ":1.1", number)));
        let not_1 = |(client, _): &(Client, u32)| {
            if client.user == 1 {
                Readiness::Blocked
            } else {
                Readiness::Ready
            }
        };
        assert_eq!(fair.take(|_| 0, not_1).expect("one of 2").1, 1);
        assert!(fair.take(|_| 0, not_1).is_none());
        assert_eq!(order(&mut fair), [0, 2]);
    }

    /// Small entries pass a large one a few times. Then room is reserved for it, also from entries of a later rank. A blocked
    /// entry is passed without limit.
    #[test]
    fn what_lacks_room_is_passed_a_few_times_and_then_is_next() {
        const LARGE: u32 = 0;
        const HELD: u32 = 1;
        for rank_of_large in [0, 1] {
            let mut fair = Fair::default();
            fair.push(from(1, ":1.1", LARGE));
            fair.push(from(2, ":1.2", HELD));
            let rank = |(_, number): &(Client, u32)| match *number {
                LARGE => rank_of_large,
                _ => 1,
            };
            let mut passes = 0;
            // Small entries of new users arrive again and again, and would come first.
            for small in 2..40 {
                fair.push(from(small + 10, &format!(":2.{small}"), small));
                let taken = fair.take(rank, |(_, number)| match *number {
                    LARGE => Readiness::NoRoom,
                    HELD => Readiness::Blocked,
                    _ => Readiness::Ready,
                });
                passes += u32::from(taken.is_some());
            }
            assert_eq!(passes, MOST_PASSES);
            // There is room now.
            let all_but_held = |(_, number): &(Client, u32)| match *number {
                HELD => Readiness::Blocked,
                _ => Readiness::Ready,
            };
            let first = fair.take(rank, all_but_held).expect("it may go");
            assert_eq!(first.1, LARGE);
            assert!(fair.take(rank, all_but_held).is_some());
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut fair = Fair::default();
        for number in 0..5000 {
            fair.push(from(number, &format!(":1.{number}"), number));
            take(&mut fair);
        }
        assert!(
            fair.history.users.last.len() <= 1024 && fair.history.connections.last.len() <= 1024
        );
    }
}

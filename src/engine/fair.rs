//! Whose turn it is among those that wait: users alternate; of one user its connections; of one connection who came
//! first is first.
//!
//! It counts turns, not what they cost: a long one is as much as a short one.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use super::Client;

/// What waits for somebody.
pub(super) trait Waits {
    fn client(&self) -> &Client;
}

/// Those that wait.
#[derive(Debug)]
pub(super) struct Fair<T> {
    /// As they came.
    waiting: VecDeque<T>,
    users: Served<u32>,
    connections: Served<Arc<str>>,
}

impl<T> Default for Fair<T> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            users: Served::default(),
            connections: Served::default(),
        }
    }
}

impl<T: Waits> Fair<T> {
    pub(super) fn push(&mut self, one: T) {
        self.waiting.push_back(one);
    }

    /// The next of those that `may` go: of the user that was served least recently, from that one's connection that
    /// was.
    pub(super) fn take(&mut self, may: impl Fn(&T) -> bool) -> Option<T> {
        let waiting = self.waiting.iter().enumerate();
        let (at, one) = waiting.filter(|(_, one)| may(one)).min_by_key(|(_, one)| {
            let Client { name, user } = one.client();
            (self.users.last(user), self.connections.last(name))
        })?;
        let Client { name, user } = one.client();
        self.users.serve(*user);
        self.connections.serve(name.clone());
        self.waiting.remove(at)
    }

    /// How many of those that are `alike` are taken before one of them, if nobody else comes.
    pub(super) fn before(
        &self,
        is_it: impl Fn(&T) -> bool,
        alike: impl Fn(&T) -> bool,
    ) -> Option<usize> {
        let it = self.waiting.iter().find(|one| is_it(one))?.client();
        let alike: Vec<_> = self.waiting.iter().filter(|one| alike(one)).collect();
        let own = alike.iter().take_while(|one| !is_it(one));
        let own = own.filter(|one| one.client().name == it.name).count();
        let of_user = alike.iter().map(|one| one.client());
        let of_user = of_user.filter(|client| client.user == it.user);
        let names = of_user.map(|client| &client.name);
        let of_user = own + self.connections.before(names, &it.name, own);
        let users = alike.iter().map(|one| &one.client().user);
        Some(of_user + self.users.before(users, &it.user, of_user))
    }

    /// Takes one out of its turn.
    pub(super) fn remove(&mut self, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let at = self.waiting.iter().position(is_it)?;
        self.waiting.remove(at)
    }

    /// Takes all out, as they came.
    pub(super) fn drain(&mut self) -> VecDeque<T> {
        std::mem::take(&mut self.waiting)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.waiting.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// Who was served, and when. Also those who wait for nothing any more: whoever asks again as soon as it is served must
/// not be taken for one who never was.
#[derive(Debug)]
struct Served<K> {
    last: HashMap<K, u64>,
    /// Turns so far.
    turns: u64,
}

/// Turns after which it no longer matters who had them, so that no connection is remembered for ever.
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
    /// When `one` was served last; `None`, which is before everyone, if it never was.
    fn last(&self, one: &K) -> Option<u64> {
        self.last.get(one).copied()
    }

    /// Turns that others have before `one` has had `turns` of its own and has the next. They take turns, each as often as
    /// it is among `waiting`.
    fn before<'a>(&self, waiting: impl Iterator<Item = &'a K>, one: &K, turns: usize) -> usize
    where
        K: 'a,
    {
        // When each first came, and how often.
        let mut all: HashMap<&K, (usize, usize)> = HashMap::new();
        for (at, other) in waiting.enumerate() {
            all.entry(other).or_insert((at, 0)).1 += 1;
        }
        let rank = |of: &K| (self.last(of), all.get(of).map(|(first, _)| *first));
        let others = all.iter().filter(|(other, _)| **other != one);
        let before = others.map(|(other, (_, count))| {
            let sooner = rank(other) < rank(one);
            *count.min(&(turns + usize::from(sooner)))
        });
        before.sum()
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

    impl Waits for (Client, u32) {
        fn client(&self) -> &Client {
            &self.0
        }
    }

    fn from(user: u32, connection: &str, number: u32) -> (Client, u32) {
        let name = connection.into();
        (Client { name, user }, number)
    }

    fn order(fair: &mut Fair<(Client, u32)>) -> Vec<u32> {
        std::iter::from_fn(|| fair.take(|_| true))
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

    /// Asking again at once gains nothing, also for one who has nothing waiting when it is served.
    #[test]
    fn whoever_was_served_comes_after_who_was_not() {
        let mut fair = Fair::default();
        (0..3).for_each(|number| fair.push(from(1, ":1.1", number)));
        let mut users = Vec::new();
        for number in 3..9 {
            fair.push(from(2, ":1.2", number));
            users.push(fair.take(|_| true).expect("several wait").0.user);
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
                fair.take(|_| true);
            }
            let many = random.usize(0..12);
            come(&mut fair, &mut random, many);
            let waiting: Vec<u32> = fair.iter().map(|(_, number)| *number).collect();
            let told = waiting.iter().map(|number| {
                let before = fair.before(|(_, other)| other == number, |_| true);
                (before.expect("it waits"), *number)
            });
            let mut told: Vec<_> = told.collect();
            told.sort_unstable();
            let order = order(&mut fair);
            assert!(told.into_iter().eq(order.into_iter().enumerate()));
        }
    }

    #[test]
    fn only_who_may_go_is_taken() {
        let mut fair = Fair::default();
        [(1, 0), (2, 1), (1, 2)]
            .into_iter()
            .for_each(|(user, number)| fair.push(from(user, ":1.1", number)));
        let not_1 = |(client, _): &(Client, u32)| client.user != 1;
        assert_eq!(fair.take(not_1).expect("one of 2").1, 1);
        assert!(fair.take(not_1).is_none());
        assert_eq!(order(&mut fair), [0, 2]);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut fair = Fair::default();
        for number in 0..5000 {
            fair.push(from(number, &format!(":1.{number}"), number));
            fair.take(|_| true);
        }
        assert!(fair.users.last.len() <= 1024 && fair.connections.last.len() <= 1024);
    }
}

//! Whose turn it is among those that wait: users alternate; of one user its connections; of one connection who came
//! first is first.
//!
//! It counts turns, not what they cost: a long one is as much as a short one. One that needs more than there is room for is
//! passed by those that need less, but not for ever: after a few of them nobody is taken before it.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use super::{Client, ConnectionName};

/// What waits for somebody.
pub(super) trait Waits {
    fn client(&self) -> &Client;
}

/// So many pass one that lacks room, before nobody does.
const MOST_PASSES: u32 = 8;

/// Whether one of those that wait may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum May {
    Go,
    /// It could not however much room there was.
    Not,
    /// There is too little room for it.
    LacksRoom,
}

/// These are the turns that wait.
#[derive(Debug)]
pub(super) struct Fair<T> {
    /// As they came.
    waiting: VecDeque<Waiter<T>>,
    had: Had,
}

#[derive(Debug)]
struct Waiter<T> {
    one: T,
    /// How many have passed it while it lacked room.
    passed: u32,
}

/// Who has had turns, and when.
#[derive(Debug, Default)]
pub(super) struct Had {
    users: Served<u32>,
    connections: Served<ConnectionName>,
}

/// One that waits, for whoever looks.
#[derive(Clone, Debug)]
pub(super) struct Seen<S> {
    pub(super) one: S,
    pub(super) client: Client,
    last: Last,
}

/// How many of those that are `alike` are taken before one of them, if nobody else comes.
pub(super) fn before<S>(
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

/// Turns that others have before `one` has had `turns` of its own and has the next. They take turns, each as often as it is
/// among those that wait, who had their last ones then.
fn turns_before<'a, K: Eq + Hash + 'a>(
    waiting: impl Iterator<Item = (&'a K, Option<u64>)>,
    one: &K,
    turns: usize,
) -> usize {
    // When each had its last turn and first came, and how often it did.
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

/// When a user had its last turn, and then its connection: the least comes first.
pub(super) type Last = (Option<u64>, Option<u64>);

impl Had {
    pub(super) fn last(&self, Client { name, user }: &Client) -> Last {
        (self.users.last(user), self.connections.last(name))
    }

    /// Somebody has a turn.
    pub(super) fn serve(&mut self, Client { name, user }: &Client) {
        self.users.serve(*user);
        self.connections.serve(name.clone());
    }
}

impl<T> Default for Fair<T> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            had: Had::default(),
        }
    }
}

impl<T: Waits> Fair<T> {
    pub(super) fn push(&mut self, one: T) {
        self.waiting.push_back(Waiter { one, passed: 0 });
    }

    /// The next of those that `may` go: of the least `rank`, of the user that was served least recently, from that one's
    /// connection that was. Whoever lacks room is passed, but for one that has been passed too often.
    pub(super) fn take<K: Ord>(
        &mut self,
        rank: impl Fn(&T) -> K,
        may: impl Fn(&T) -> May,
    ) -> Option<T> {
        let mut order: Vec<_> = (0..self.waiting.len()).collect();
        order.sort_by_cached_key(|at| {
            let one = &self.waiting[*at].one;
            (rank(one), self.had.last(one.client()))
        });
        let mut lack = Vec::new();
        for at in order {
            let Waiter { one, passed } = &self.waiting[at];
            match may(one) {
                May::Go => {
                    self.had.serve(one.client());
                    for at in lack {
                        self.waiting[at].passed += 1;
                    }
                    return self.waiting.remove(at).map(|waiter| waiter.one);
                }
                May::LacksRoom if *passed >= MOST_PASSES => return None,
                May::LacksRoom => lack.push(at),
                May::Not => {}
            }
        }
        None
    }

    /// What whoever looks is shown of those that wait, in the order in which they came.
    pub(super) fn seen<S>(&self, see: impl Fn(&T) -> S) -> Vec<Seen<S>> {
        let seen = |one: &T| Seen {
            one: see(one),
            client: one.client().clone(),
            last: self.had.last(one.client()),
        };
        self.iter().map(seen).collect()
    }

    /// Takes one out of its turn.
    pub(super) fn remove(&mut self, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let at = self.iter().position(is_it)?;
        self.waiting.remove(at).map(|waiter| waiter.one)
    }

    /// Takes all out, as they came.
    pub(super) fn drain(&mut self) -> VecDeque<T> {
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        waiting.map(|waiter| waiter.one).collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.waiting.iter().map(|waiter| &waiter.one)
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

    fn take(fair: &mut Fair<(Client, u32)>) -> Option<(Client, u32)> {
        fair.take(|_| 0, |_| May::Go)
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

    /// Asking again at once gains nothing, also for one who has nothing waiting when it is served.
    #[test]
    fn whoever_was_served_comes_after_who_was_not() {
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
            let told = waiting.iter().map(|number| {
                let seen = fair.seen(|(_, number)| *number);
                let before = before(&seen, |other| other == number, |_| true);
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
        let not_1 = |(client, _): &(Client, u32)| {
            if client.user == 1 { May::Not } else { May::Go }
        };
        assert_eq!(fair.take(|_| 0, not_1).expect("one of 2").1, 1);
        assert!(fair.take(|_| 0, not_1).is_none());
        assert_eq!(order(&mut fair), [0, 2]);
    }

    /// Small ones pass a large one a few times; then what becomes free is kept for it, also from those of a later rank. Whoever
    /// waits for something else than room is passed for ever, and holds up nobody.
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
            // Somebody small comes again and again, each a new user, who would be first.
            for small in 2..40 {
                fair.push(from(small + 10, &format!(":2.{small}"), small));
                let taken = fair.take(rank, |(_, number)| match *number {
                    LARGE => May::LacksRoom,
                    HELD => May::Not,
                    _ => May::Go,
                });
                passes += u32::from(taken.is_some());
            }
            assert_eq!(passes, MOST_PASSES);
            // There is room at last.
            let all_but_held = |(_, number): &(Client, u32)| match *number {
                HELD => May::Not,
                _ => May::Go,
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
        assert!(fair.had.users.last.len() <= 1024 && fair.had.connections.last.len() <= 1024);
    }
}

//! Whose turn it is among messages that wait: users alternate, of one user its connections do, and of one connection
//! what came first is first.
//!
//! A message counts as a turn, however long it is. What a user or a connection had before is not remembered: whoever has
//! nothing waiting comes behind those who have, and waits for one message of each.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Who shares a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Whose {
    /// The bus itself.
    Bus,
    /// All connections whose user is not known yet.
    Unknown,
    User(u32),
}

/// Messages that wait.
#[derive(Debug)]
pub(super) struct Turns<T> {
    /// These have something waiting; the first is next.
    round: VecDeque<Whose>,
    /// The connections of each of them; the first is next.
    connections: HashMap<Whose, VecDeque<Arc<str>>>,
    queues: HashMap<Arc<str>, ConnectionQueue<T>>,
    /// What comes behind all that was there before it.
    behind: VecDeque<T>,
    /// How many came before the first of those, between it and the second, and so on.
    before: VecDeque<usize>,
    /// So many of those behind all have gone.
    gone: usize,
}

/// What waits of one connection; never nothing.
#[derive(Debug)]
struct ConnectionQueue<T> {
    whose: Whose,
    /// Beside each is how many had been put behind all when it came.
    items: VecDeque<(usize, T)>,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self {
            round: VecDeque::new(),
            connections: HashMap::new(),
            queues: HashMap::new(),
            behind: VecDeque::new(),
            before: VecDeque::from([0]),
            gone: 0,
        }
    }
}

impl<T> Turns<T> {
    /// Puts it behind what else waits of its connection.
    pub(super) fn push(&mut self, whose: Whose, connection: &str, item: T) {
        let since = self.gone + self.behind.len();
        if let Some(before) = self.before.back_mut() {
            *before += 1;
        }
        if let Some(queue) = self.queues.get_mut(connection) {
            queue.items.push_back((since, item));
            let known = std::mem::replace(&mut queue.whose, whose);
            if known != whose
                && let Some(name) = self.leave(known, connection)
            {
                self.join(whose, name);
            }
            return;
        }
        let name: Arc<str> = connection.into();
        let items = VecDeque::from([(since, item)]);
        self.queues
            .insert(name.clone(), ConnectionQueue { whose, items });
        self.join(whose, name);
    }

    /// Puts it behind all that waits, whosever that is; what comes later may go before it.
    pub(super) fn push_behind(&mut self, item: T) {
        self.behind.push_back(item);
        self.before.push_back(0);
    }

    /// The next, and whose it is, of the connections that `may` go.
    pub(super) fn pop(&mut self, may: impl Fn(Whose, &str) -> bool) -> Option<T> {
        if self.before.front() == Some(&0)
            && let Some(item) = self.behind.pop_front()
        {
            self.before.pop_front();
            self.gone += 1;
            return Some(item);
        }
        let (whose, at) = self.round.iter().find_map(|whose| {
            let mut names = self.connections.get(whose)?.iter();
            Some((*whose, names.position(|name| may(*whose, name))?))
        })?;
        let names = self.connections.get_mut(&whose)?;
        let name = names.remove(at)?;
        let queue = self.queues.get_mut(&name)?;
        let (since, item) = queue.items.pop_front()?;
        let more = !queue.items.is_empty();
        if more {
            names.push_back(name);
        } else {
            self.queues.remove(&name);
        }
        // It goes behind the others, if there is more.
        self.round.retain(|other| *other != whose);
        if names.is_empty() {
            self.connections.remove(&whose);
        } else {
            self.round.push_back(whose);
        }
        if let Some(before) = self.before.get_mut(since - self.gone) {
            *before -= 1;
        }
        Some(item)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.behind.is_empty()
    }

    fn join(&mut self, whose: Whose, name: Arc<str>) {
        let names = self.connections.entry(whose).or_default();
        if names.is_empty() {
            self.round.push_back(whose);
        }
        names.push_back(name);
    }

    fn leave(&mut self, whose: Whose, name: &str) -> Option<Arc<str>> {
        let names = self.connections.get_mut(&whose)?;
        let at = names.iter().position(|other| **other == *name)?;
        let name = names.remove(at);
        if names.is_empty() {
            self.connections.remove(&whose);
            self.round.retain(|other| *other != whose);
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Whose = Whose::User(1);
    const TWO: Whose = Whose::User(2);

    fn order(turns: &mut Turns<u32>) -> Vec<u32> {
        std::iter::from_fn(|| turns.pop(|_, _| true)).collect()
    }

    #[test]
    fn users_alternate_then_their_connections_then_first_come() {
        let mut turns = Turns::default();
        for number in 0..4 {
            turns.push(ONE, ":1.1", number);
        }
        for (whose, name, number) in [(ONE, ":1.2", 4), (TWO, ":1.3", 5), (TWO, ":1.3", 6)] {
            turns.push(whose, name, number);
        }
        turns.push(Whose::Bus, "", 7);
        assert_eq!(order(&mut turns), [0, 5, 7, 4, 6, 1, 2, 3]);
        assert!(turns.is_empty() && turns.connections.is_empty() && turns.round.is_empty());
    }

    /// However many connections a user has, another waits for one message of it.
    #[test]
    fn whoever_comes_now_and_then_waits_for_one_of_each() {
        let mut turns = Turns::default();
        let mut flood = 0..;
        let mut more = |turns: &mut Turns<_>| {
            for (connection, number) in (0..50).zip(&mut flood) {
                turns.push(ONE, &format!(":1.{connection}"), number);
            }
        };
        more(&mut turns);
        for _ in 0..10 {
            more(&mut turns);
            turns.push(TWO, ":2.1", u32::MAX);
            let next: Vec<u32> = (0..2).filter_map(|_| turns.pop(|_, _| true)).collect();
            assert!(next.contains(&u32::MAX), "{next:?}");
        }
    }

    #[test]
    fn only_who_may_go_does() {
        let mut turns = Turns::default();
        for (whose, name, number) in [(ONE, ":1.1", 0), (ONE, ":1.2", 1), (TWO, ":1.3", 2)] {
            turns.push(whose, name, number);
        }
        assert_eq!(turns.pop(|_, name| name == ":1.2"), Some(1));
        assert_eq!(turns.pop(|whose, _| whose == TWO), Some(2));
        assert_eq!(turns.pop(|whose, _| whose == TWO), None);
        assert_eq!(order(&mut turns), [0]);
    }

    #[test]
    fn a_connection_whose_user_becomes_known_keeps_its_order() {
        let mut turns = Turns::default();
        (0..2).for_each(|number| turns.push(Whose::Unknown, ":1.1", number));
        turns.push(ONE, ":1.2", 10);
        turns.push(ONE, ":1.1", 2);
        assert_eq!(order(&mut turns), [10, 0, 1, 2]);
    }

    #[test]
    fn what_is_put_behind_all_waits_for_what_was_there_and_no_more() {
        let mut turns = Turns::default();
        turns.push(ONE, ":1.1", 0);
        turns.push(ONE, ":1.1", 1);
        turns.push_behind(100);
        turns.push(TWO, ":1.2", 2);
        turns.push(ONE, ":1.1", 3);
        turns.push_behind(101);
        assert_eq!(order(&mut turns), [0, 2, 1, 100, 3, 101]);
        turns.push_behind(102);
        turns.push(ONE, ":1.1", 4);
        assert_eq!(order(&mut turns), [102, 4]);
    }
}

//! A fair queue of messages: users alternate, then the connections of one user, and the messages of one connection keep
//! their order.
//!
//! Each message is one turn, whatever its length. Earlier turns are not remembered: a user with an empty queue joins behind
//! the others, and waits for one message of each.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The connections that share one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Party {
    /// The bus itself.
    Bus,
    /// All connections whose user is not known yet.
    Unknown,
    User(u32),
}

/// The queue.
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    /// The parties with messages; the first is next.
    round: VecDeque<Party>,
    /// The connections of each party; the first is next.
    connections: HashMap<Party, VecDeque<Arc<str>>>,
    queues: HashMap<Arc<str>, ConnectionQueue<T>>,
    /// Messages that follow every message that was in the queue before them.
    barriers: VecDeque<T>,
    /// The queued messages before the first barrier, between it and the second, and so on.
    before: VecDeque<usize>,
    /// The number of barriers that were removed.
    removed: usize,
}

/// The messages of one connection; never empty.
#[derive(Debug)]
struct ConnectionQueue<T> {
    party: Party,
    /// Each with the number of barriers that were added before it.
    items: VecDeque<(usize, T)>,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self {
            round: VecDeque::new(),
            connections: HashMap::new(),
            queues: HashMap::new(),
            barriers: VecDeque::new(),
            before: VecDeque::from([0]),
            removed: 0,
        }
    }
}

impl<T> FairQueue<T> {
    /// Adds a message behind those of its connection.
    pub(super) fn push(&mut self, party: Party, connection: &str, item: T) {
        let since = self.removed + self.barriers.len();
        if let Some(before) = self.before.back_mut() {
            *before += 1;
        }
        if let Some(queue) = self.queues.get_mut(connection) {
            queue.items.push_back((since, item));
            let known = std::mem::replace(&mut queue.party, party);
            if known != party
                && let Some(name) = self.leave(known, connection)
            {
                self.join(party, name);
            }
            return;
        }
        let name: Arc<str> = connection.into();
        let items = VecDeque::from([(since, item)]);
        self.queues
            .insert(name.clone(), ConnectionQueue { party, items });
        self.join(party, name);
    }

    /// Adds a message behind all messages in the queue. Later messages may overtake it.
    pub(super) fn push_barrier(&mut self, item: T) {
        self.barriers.push_back(item);
        self.before.push_back(0);
    }

    /// Removes the next message of a party and connection that `may` go.
    pub(super) fn pop(&mut self, may: impl Fn(Party, &str) -> bool) -> Option<T> {
        if self.before.front() == Some(&0)
            && let Some(item) = self.barriers.pop_front()
        {
            self.before.pop_front();
            self.removed += 1;
            return Some(item);
        }
        let (party, at) = self.round.iter().find_map(|party| {
            let mut names = self.connections.get(party)?.iter();
            Some((*party, names.position(|name| may(*party, name))?))
        })?;
        let names = self.connections.get_mut(&party)?;
        let name = names.remove(at)?;
        let queue = self.queues.get_mut(&name)?;
        let (since, item) = queue.items.pop_front()?;
        let more = !queue.items.is_empty();
        if more {
            names.push_back(name);
        } else {
            self.queues.remove(&name);
        }
        // The party goes behind the others, if it has more.
        self.round.retain(|other| *other != party);
        if names.is_empty() {
            self.connections.remove(&party);
        } else {
            self.round.push_back(party);
        }
        if let Some(before) = self.before.get_mut(since - self.removed) {
            *before -= 1;
        }
        Some(item)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.barriers.is_empty()
    }

    fn join(&mut self, party: Party, name: Arc<str>) {
        let names = self.connections.entry(party).or_default();
        if names.is_empty() {
            self.round.push_back(party);
        }
        names.push_back(name);
    }

    fn leave(&mut self, party: Party, name: &str) -> Option<Arc<str>> {
        let names = self.connections.get_mut(&party)?;
        let at = names.iter().position(|other| **other == *name)?;
        let name = names.remove(at);
        if names.is_empty() {
            self.connections.remove(&party);
            self.round.retain(|other| *other != party);
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Party = Party::User(1);
    const TWO: Party = Party::User(2);

    fn order(queue: &mut FairQueue<u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.pop(|_, _| true)).collect()
    }

    #[test]
    fn users_alternate_then_their_connections_then_first_come() {
        let mut queue = FairQueue::default();
        for number in 0..4 {
            queue.push(ONE, ":1.1", number);
        }
        for (party, name, number) in [(ONE, ":1.2", 4), (TWO, ":1.3", 5), (TWO, ":1.3", 6)] {
            queue.push(party, name, number);
        }
        queue.push(Party::Bus, "", 7);
        assert_eq!(order(&mut queue), [0, 5, 7, 4, 6, 1, 2, 3]);
        assert!(queue.is_empty() && queue.connections.is_empty() && queue.round.is_empty());
    }

    /// However many connections a user has, another user waits for one message of it.
    #[test]
    fn a_user_with_an_empty_queue_waits_for_one_message_of_each() {
        let mut queue = FairQueue::default();
        let mut flood = 0..;
        let mut more = |queue: &mut FairQueue<_>| {
            for (connection, number) in (0..50).zip(&mut flood) {
                queue.push(ONE, &format!(":1.{connection}"), number);
            }
        };
        more(&mut queue);
        for _ in 0..10 {
            more(&mut queue);
            queue.push(TWO, ":2.1", u32::MAX);
            let next: Vec<u32> = (0..2).filter_map(|_| queue.pop(|_, _| true)).collect();
            assert!(next.contains(&u32::MAX), "{next:?}");
        }
    }

    #[test]
    fn only_messages_that_may_go_are_taken() {
        let mut queue = FairQueue::default();
        for (party, name, number) in [(ONE, ":1.1", 0), (ONE, ":1.2", 1), (TWO, ":1.3", 2)] {
            queue.push(party, name, number);
        }
        assert_eq!(queue.pop(|_, name| name == ":1.2"), Some(1));
        assert_eq!(queue.pop(|party, _| party == TWO), Some(2));
        assert_eq!(queue.pop(|party, _| party == TWO), None);
        assert_eq!(order(&mut queue), [0]);
    }

    #[test]
    fn a_connection_whose_user_becomes_known_keeps_its_order() {
        let mut queue = FairQueue::default();
        (0..2).for_each(|number| queue.push(Party::Unknown, ":1.1", number));
        queue.push(ONE, ":1.2", 10);
        queue.push(ONE, ":1.1", 2);
        assert_eq!(order(&mut queue), [10, 0, 1, 2]);
    }

    #[test]
    fn a_barrier_follows_all_earlier_messages_and_no_later_ones() {
        let mut queue = FairQueue::default();
        queue.push(ONE, ":1.1", 0);
        queue.push(ONE, ":1.1", 1);
        queue.push_barrier(100);
        queue.push(TWO, ":1.2", 2);
        queue.push(ONE, ":1.1", 3);
        queue.push_barrier(101);
        assert_eq!(order(&mut queue), [0, 2, 1, 100, 3, 101]);
        queue.push_barrier(102);
        queue.push(ONE, ":1.1", 4);
        assert_eq!(order(&mut queue), [102, 4]);
    }
}

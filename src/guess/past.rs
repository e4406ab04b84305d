//! The latest answers of each user: a new conversation may repeat them. Answers of one user never serve another.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::lookup::Lookup;

/// The most tokens that are kept for one user.
const TOKENS: usize = 16_384;
/// The most answers that are kept for one user: each is searched for each guess.
const ANSWERS: usize = 64;
/// The most users.
const USERS: usize = 64;
/// How long the answers of a user without new ones are kept.
const IDLE: Duration = Duration::from_secs(600);

/// The latest answers of each user, with an index of each.
#[derive(Debug, Default)]
pub struct Past {
    users: HashMap<u32, Answers>,
}

#[derive(Debug)]
struct Answers {
    /// The oldest first.
    texts: VecDeque<Arc<Lookup>>,
    tokens: usize,
    last: Instant,
}

impl Past {
    /// Adds the tokens of an answer.
    pub fn add(&mut self, user: u32, tokens: &[u32], now: Instant) {
        if tokens.is_empty() || tokens.len() > TOKENS {
            return;
        }
        let new = || Answers {
            texts: VecDeque::new(),
            tokens: 0,
            last: now,
        };
        let of = self.users.entry(user).or_insert_with(new);
        of.last = now;
        of.tokens += tokens.len();
        of.texts
            .push_back(Arc::new(tokens.iter().copied().collect()));
        while of.tokens > TOKENS || of.texts.len() > ANSWERS {
            let oldest = of.texts.pop_front();
            of.tokens -= oldest.map_or(0, |oldest| oldest.tokens().len());
        }
        if self.users.len() > USERS {
            let oldest = self.users.iter().min_by_key(|(_, of)| of.last);
            if let Some(oldest) = oldest.map(|(user, _)| *user) {
                self.forget(oldest);
            }
        }
    }

    /// Returns a user's answers, the latest first.
    #[must_use]
    pub fn of(&self, user: u32) -> Vec<Arc<Lookup>> {
        let of = self.users.get(&user);
        of.map_or_else(Vec::new, |of| of.texts.iter().rev().cloned().collect())
    }

    /// Forgets a user's answers.
    pub fn forget(&mut self, user: u32) {
        self.users.remove(&user);
    }

    /// Forgets the answers of users who have had no answer for a while.
    pub fn forget_idle(&mut self, now: Instant) {
        self.users.retain(|_, of| now < of.last + IDLE);
    }

    /// Returns when there are answers to forget.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.users.values().map(|of| of.last + IDLE).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_own_answers_for_a_while() {
        let (mut past, begun) = (Past::default(), Instant::now());
        past.add(1, &[1, 2, 3, 4], begun);
        past.add(1, &[5, 6, 7, 8], begun + IDLE / 2);
        past.add(2, &[9], begun);
        let [first, second] = [1, 2].map(|user| past.of(user));
        assert_eq!((first.len(), second.len()), (2, 1));
        assert_eq!(first[0].tokens(), [5, 6, 7, 8], "the latest comes first");
        assert!(past.of(3).is_empty());
        assert_eq!(past.due(), Some(begun + IDLE));
        past.forget_idle(begun + IDLE);
        assert_eq!((past.of(1).len(), past.of(2).len()), (2, 0));
        past.forget(1);
        assert!(past.of(1).is_empty() && past.due().is_none());
    }

    #[test]
    fn the_latest_answers_stay() {
        let (mut past, now) = (Past::default(), Instant::now());
        for token in 0..20 {
            past.add(1, &[token; 1000], now);
        }
        let all = past.of(1);
        assert_eq!(all.len(), TOKENS / 1000);
        assert_eq!(all[0].tokens()[0], 19);
        past.add(1, &vec![7; TOKENS + 1], now);
        assert_eq!(past.of(1).len(), all.len(), "it is too long");
        for user in 2..200 {
            past.add(user, &[1], now + IDLE / 2);
        }
        assert!(past.of(1).is_empty());
    }
}

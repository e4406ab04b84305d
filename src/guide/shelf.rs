//! Idle processes with compiled grammars, and grammars that were refused because of their cost.
//!
//! Each entry belongs to a user. Otherwise the speed of an answer would show that another user has compiled the
//! grammar.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use super::grammar::{Grammar, GrammarError};
use super::keeper::Process;
use super::limits::Limits;

/// The most bytes of idle processes, and their number.
const MOST_BYTES: usize = 64 << 20;
const MOST_PROCESSES: usize = 32;
/// The most refusals that are kept.
const MOST_REFUSALS: usize = 64;
/// For this long after a refusal, grammars of the same user are compiled only while the processor is idle.
const RECENT: Duration = Duration::from_secs(60);

/// A user's grammar, and the limits under which it was compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) user: u32,
    pub(super) grammar: Arc<Grammar>,
    pub(super) limits: Limits,
}

/// The shelf. Clones share its content.
#[derive(Clone, Default)]
pub(super) struct Shelf(Arc<Mutex<Held>>);

#[derive(Default)]
struct Held {
    /// Idle processes, the least recently used first.
    idle: VecDeque<Idle>,
    /// Processes that serve an answer.
    lent: Vec<(Key, Weak<Process>)>,
    refused: VecDeque<Refused>,
}

/// A grammar that exceeded a limit.
struct Refused {
    key: Key,
    error: GrammarError,
    when: Instant,
}

struct Idle {
    key: Key,
    process: Arc<Process>,
    bytes: usize,
}

/// A process for an answer.
pub(super) enum Found {
    /// An idle process, and its own bytes.
    Idle(Arc<Process>, usize),
    /// A process that serves another answer, and can start a further process.
    Lent(Arc<Process>),
}

impl Shelf {
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock()
    }

    /// Whether a grammar is compiled; an error is the reason of its refusal.
    pub(super) fn knows(&self, key: &Key) -> Result<bool, GrammarError> {
        let held = self.lock();
        if let Some(refused) = held.refused.iter().find(|refused| refused.key == *key) {
            return Err(refused.error.clone());
        }
        let lent = |(of, process): &(Key, Weak<Process>)| of == key && process.strong_count() > 0;
        Ok(held.idle.iter().any(|idle| idle.key == *key) || held.lent.iter().any(lent))
    }

    /// Takes a process for an answer.
    pub(super) fn take(&self, key: &Key) -> Option<Found> {
        let mut held = self.lock();
        let Held { idle, lent, .. } = &mut *held;
        lent.retain(|(_, process)| process.strong_count() > 0);
        if let Some(at) = idle.iter().rposition(|idle| idle.key == *key) {
            let Idle { process, bytes, .. } = idle.remove(at)?;
            lent.push((key.clone(), Arc::downgrade(&process)));
            return Some(Found::Idle(process, bytes));
        }
        let busy = lent.iter().find(|(of, _)| of == key);
        busy.and_then(|(_, process)| process.upgrade())
            .map(Found::Lent)
    }

    /// Records a process that another one has started for an answer.
    pub(super) fn lend(&self, key: &Key, process: &Arc<Process>) {
        let lent = (key.clone(), Arc::downgrade(process));
        self.lock().lent.push(lent);
    }

    /// Adds an idle process, and drops others to keep the limits. Ending a process takes time, so no thread that makes
    /// answers calls this.
    pub(super) fn put(&self, key: Key, process: Arc<Process>, bytes: usize) {
        let mut dropped = Vec::new();
        {
            let mut held = self.lock();
            held.lent
                .retain(|(_, lent)| !std::ptr::eq(lent.as_ptr(), Arc::as_ptr(&process)));
            let idle = &mut held.idle;
            idle.push_back(Idle {
                key,
                process,
                bytes,
            });
            while idle.len() > MOST_PROCESSES
                || idle.iter().map(|idle| idle.bytes).sum::<usize>() > MOST_BYTES
            {
                let Some(one) = next_to_drop(idle).and_then(|at| idle.remove(at)) else {
                    break;
                };
                dropped.push(one);
            }
        }
        drop(dropped);
    }

    /// Records that a grammar costs too much.
    pub(super) fn refuse(&self, key: Key, error: GrammarError) {
        let mut held = self.lock();
        held.refused.push_back(Refused {
            key,
            error,
            when: Instant::now(),
        });
        if held.refused.len() > MOST_REFUSALS {
            held.refused.pop_front();
        }
    }

    /// Whether a grammar of this user exceeded a limit a short time ago.
    pub(super) fn has_refused(&self, user: u32) -> bool {
        let recent = |one: &Refused| one.key.user == user && one.when.elapsed() < RECENT;
        self.lock().refused.iter().any(recent)
    }

    /// Returns the number of idle processes.
    pub(super) fn count(&self) -> usize {
        self.lock().idle.len()
    }
}

/// Returns the position of the process to drop. It belongs to the user with the most bytes, and is the least recently
/// used one of those whose grammar has another idle process. If there is none, it is the least recently used one.
fn next_to_drop(idle: &VecDeque<Idle>) -> Option<usize> {
    let mut of_user = HashMap::<u32, usize>::new();
    for one in idle {
        // Each process counts with at least 1 MiB.
        *of_user.entry(one.key.user).or_default() += one.bytes.max(1 << 20);
    }
    let (greatest, _) = of_user.into_iter().max_by_key(|(_, bytes)| *bytes)?;
    let has_another = |at: usize, key: &Key| {
        let mut later = idle.iter().skip(at + 1);
        later.any(|other| other.key == *key)
    };
    let mut of_greatest = idle
        .iter()
        .enumerate()
        .filter(|(_, one)| one.key.user == greatest);
    let first = of_greatest.clone().next();
    of_greatest
        .find(|(at, one)| has_another(*at, &one.key))
        .or(first)
        .map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_counts_for_its_user_alone() {
        let shelf = Shelf::default();
        let key = |user| Key {
            user,
            grammar: Arc::new(Grammar::Json),
            limits: Limits::USUAL,
        };
        shelf.refuse(key(1), GrammarError::NoVocabulary);
        assert!(shelf.knows(&key(1)).is_err() && shelf.has_refused(1));
        assert!(shelf.knows(&key(2)).is_ok() && !shelf.has_refused(2));
    }
}

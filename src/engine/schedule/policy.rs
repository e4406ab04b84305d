//! Decides what the engine thread runs next: which requests may join, which generations step together, and whose prompt is
//! prefilled. All of it is pure functions.

use std::cmp::{Ordering, Reverse};
use std::time::Duration;

use super::prefill_time::PrefillTime;
use crate::engine::caller::request::Priority;

/// What a generation needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Some of its prompt is not in the cache.
    Prefill,
    /// A step for its next token.
    Decode,
}

/// A generation as the scheduler sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) slot: usize,
    pub(crate) user: u32,
    pub(crate) priority: Priority,
    pub(crate) stage: Stage,
    /// The prefill time that its user, and then its connection, has had.
    pub(crate) prefill_time: PrefillTime,
    /// Tokens of its prompt that are not in the cache.
    pub(crate) remaining: usize,
    /// Whether its prefill may come before the steps that are due, which other users' prompts owe.
    pub(crate) passes: bool,
}

/// Whether and how a request may join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// There are a row and pages for it.
    Fits,
    /// There are pages for it once the generations in these slots have lost theirs.
    Preempting(Vec<usize>),
    /// There is no row for it.
    NoRow,
    /// There are too few pages for it.
    NoPages,
}

/// What the engine thread runs next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A slice of the prompt in `slot`. `others` other generations could run meanwhile.
    Prefill { slot: usize, others: usize },
    /// A step of these slots.
    Step(Vec<usize>),
    /// Nothing.
    Idle,
}

/// Decides whether a request of a user and a priority may join `all`, which are in the order in which they joined. `room`
/// decides whether there are pages for it once the given slots are free.
///
/// A request joins only if it gets a row at once. For that it may suspend a generation: `realtime` suspends `background`,
/// the newest first. A user who has fewer rows suspends a generation of a user who has at least two more, the newest that
/// is not more urgent. Only `realtime` takes pages, and only those of `background`.
pub(crate) fn placement(
    all: &[Candidate],
    rows: usize,
    (user, priority): (u32, Priority),
    room: impl Fn(&[usize]) -> bool,
) -> Placement {
    let loses_pages =
        |one: &&Candidate| priority == Priority::Realtime && one.priority == Priority::Background;
    let newest = Candidate {
        slot: usize::MAX,
        user,
        priority,
        stage: Stage::Prefill,
        prefill_time: PrefillTime::default(),
        remaining: 0,
        passes: false,
    };
    let before = active(all, rows);
    let after = active(&[all, &[newest]].concat(), rows);
    let of = |user: u32| before.iter().filter(|one| one.user == user).count();
    let mut suspended = before.iter().filter(|one| !after.contains(one));
    let may_suspend = |one: &Candidate| loses_pages(&one) || of(one.user) > of(user) + 1;
    if !after.contains(&newest) || !suspended.all(may_suspend) {
        return Placement::NoRow;
    }
    if room(&[]) {
        return Placement::Fits;
    }
    let mut leaving = Vec::new();
    for one in all.iter().rev().filter(loses_pages) {
        leaving.push(one.slot);
        if room(&leaving) {
            return Placement::Preempting(leaving);
        }
    }
    Placement::NoPages
}

/// Returns the at most `rows` candidates that are not suspended, the most urgent first. Of one priority, each user gets a
/// row before any gets two, and so on. Of one user, the oldest comes first.
pub(crate) fn active(all: &[Candidate], rows: usize) -> Vec<Candidate> {
    let nth = |at: usize, one: &Candidate| {
        let theirs = all
            .iter()
            .enumerate()
            .filter(|(_, other)| other.user == one.user);
        let before = |(other_at, other): &(usize, &Candidate)| {
            (Reverse(other.priority), *other_at) < (Reverse(one.priority), at)
        };
        theirs.filter(before).count()
    };
    let mut active: Vec<_> = all.iter().enumerate().collect();
    active.sort_by_key(|(at, one)| (Reverse(one.priority), nth(*at, one)));
    active.truncate(rows);
    active.into_iter().map(|(_, one)| *one).collect()
}

/// A prompt to be prefilled, as far as it is known before its request has joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PrefillDemand {
    pub(crate) user: u32,
    pub(crate) priority: Priority,
    /// The prefill time that its user has had.
    pub(crate) prefill_time: Duration,
    /// Tokens of the prompt. Before a request has joined, it is not known how many of them are in the cache.
    pub(crate) remaining: usize,
}

/// A shorter prompt takes as long as one of this many tokens: each reads all weights once.
const SMALLEST: usize = 32;

/// Returns the cost of a prefill, compared with others.
fn cost(remaining: usize) -> usize {
    remaining.max(SMALLEST)
}

/// Whether a request that has just arrived preempts the running slice of a prompt. `ends` says that the prompt ends with
/// that slice, and `slack` is that of `next`, which decides which of them runs then. A slice is not preempted for a prompt
/// that would come after it.
pub(crate) fn preempts_slice(
    arrival: PrefillDemand,
    running: PrefillDemand,
    ends: bool,
    slack: Duration,
) -> bool {
    let key = |one: PrefillDemand| (cost(one.remaining), one.prefill_time);
    let is_first =
        key(running) <= key(arrival) && running.prefill_time <= arrival.prefill_time + slack;
    match arrival.priority.cmp(&running.priority) {
        Ordering::Greater => true,
        Ordering::Equal => arrival.user != running.user && !(ends && is_first),
        Ordering::Less => false,
    }
}

/// Whether a request that has just arrived as `one` preempts the running step of `all`, because its prompt is prefilled
/// before a step. The other arguments are those of `next`.
pub(crate) fn preempts_step(
    all: &[Candidate],
    one: Candidate,
    rows: usize,
    steps_due: bool,
    slack: Duration,
) -> bool {
    let placement = placement(all, rows, (one.user, one.priority), |_| true);
    let all = [all, &[one]].concat();
    let is_it = |next| matches!(next, Next::Prefill { slot, .. } if slot == one.slot);
    placement != Placement::NoRow && is_it(next(&all, rows, steps_due, slack))
}

/// Decides what runs next. `steps_due` says that prefills have had their share of the time, so that steps come first. Two
/// prefills do not wait for steps: a `realtime` prompt if only `background` decodes, and a short prompt (`passes`) unless a
/// more urgent generation decodes.
///
/// Of several prompts the most urgent is prefilled. Of one priority, the order is:
/// - of one connection, the prompt that ends first;
/// - of one user, the connection that has had the least prefill time;
/// - of the users whose prefill time is within `slack` of the least, the cheapest prompt.
///
/// So a short prompt of a user with little prefill time does not wait, however long the prompts of others are.
pub(crate) fn next(all: &[Candidate], rows: usize, steps_due: bool, slack: Duration) -> Next {
    let active = active(all, rows);
    let of = |stage| active.iter().filter(move |one| one.stage == stage);
    let decoding: Vec<_> = of(Stage::Decode).collect();
    let prefilling: Vec<_> = of(Stage::Prefill).collect();
    let step = || Next::Step(decoding.iter().map(|one| one.slot).collect());
    let Some(first) = next_prefill(&prefilling, slack) else {
        return if decoding.is_empty() {
            Next::Idle
        } else {
            step()
        };
    };
    let waits = |one: &&&Candidate| {
        first.priority != Priority::Realtime || one.priority != Priority::Background
    };
    let prefill = |one: &Candidate| Next::Prefill {
        slot: one.slot,
        others: all.len() - 1,
    };
    if steps_due && decoding.iter().any(|one| waits(&one)) {
        let urgent = decoding.iter().map(|one| one.priority).max();
        let passing = |one: &&Candidate| one.passes && Some(one.priority) >= urgent;
        let passing: Vec<_> = prefilling.iter().copied().filter(passing).collect();
        return next_prefill(&passing, slack).map_or_else(step, prefill);
    }
    prefill(first)
}

/// Returns the candidate whose prompt is prefilled next.
fn next_prefill<'a>(prefilling: &[&'a Candidate], slack: Duration) -> Option<&'a Candidate> {
    let urgent = prefilling.iter().map(|one| one.priority).max()?;
    let all = || prefilling.iter().filter(|one| one.priority == urgent);
    let least = all().map(|one| one.prefill_time.user).min()?;
    let order = |one: &&&'a Candidate| (one.prefill_time, one.remaining);
    let is_users_first = |one: &&&'a Candidate| {
        let theirs = all().filter(|other| other.user == one.user);
        theirs
            .min_by_key(order)
            .is_some_and(|first| first.slot == one.slot)
    };
    let alike = all().filter(|one| one.prefill_time.user <= least + slack && is_users_first(one));
    alike
        .min_by_key(|one| (cost(one.remaining), one.prefill_time))
        .copied()
}

#[cfg(test)]
mod tests;

//! What the engine does next: who may join those that are answered, which of them step together, and whose prompt is read
//! on. Plain functions of what is the case; nothing here waits, measures or runs.

use std::cmp::{Ordering, Reverse};
use std::time::Duration;

use super::prefill_time::PrefillTime;
use crate::engine::caller::request::Priority;

/// What one of those that have joined is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Some of its prompt is unread.
    Prefill,
    /// Its next token comes by a step.
    Decode,
}

/// One of those that have joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) id: u64,
    pub(crate) user: u32,
    pub(crate) priority: Priority,
    pub(crate) stage: Stage,
    /// How much of the time of prompts its user has had, and then its connection.
    pub(crate) prefill_time: PrefillTime,
    /// Tokens of its prompt.
    pub(crate) remaining: usize,
    /// Whether its prompt need not wait for the steps that are due: those are for others'.
    pub(crate) passes: bool,
}

/// How one may join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// There are pages for it.
    Fits,
    /// These give up their pages, and begin again when there are others.
    Preempting(Vec<u64>),
    /// There is no row for it.
    NoRow,
    /// There are too few pages.
    NoPages,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Read some of this one's prompt; while it is read, so many others could go on.
    Prefill { id: u64, others: usize },
    /// These step together.
    Step(Vec<u64>),
    /// Nobody is there.
    Idle,
}

/// Whether one of a user, of such a priority, may join `all`, who stand in the order in which they joined; `room` says whether
/// there are pages for it if some of them gave theirs up.
///
/// Nobody joins to wait for a row. But `background` rests for `realtime`, the last first, and gives up its pages where there are
/// no others; and where a user has more rows than another would have with one more, the last of those that are not more urgent
/// rests for it.
pub(crate) fn placement(
    all: &[Candidate],
    rows: usize,
    (user, priority): (u32, Priority),
    room: impl Fn(&[u64]) -> bool,
) -> Placement {
    let makes_way =
        |one: &&Candidate| priority == Priority::Realtime && one.priority == Priority::Background;
    let newest = Candidate {
        id: u64::MAX,
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
    let mut rest = before.iter().filter(|one| !after.contains(one));
    let may_rest = |one: &Candidate| makes_way(&one) || of(one.user) > of(user) + 1;
    if !after.contains(&newest) || !rest.all(may_rest) {
        return Placement::NoRow;
    }
    if room(&[]) {
        return Placement::Fits;
    }
    let mut leaving = Vec::new();
    for one in all.iter().rev().filter(makes_way) {
        leaving.push(one.id);
        if room(&leaving) {
            return Placement::Preempting(leaving);
        }
    }
    Placement::NoPages
}

/// Chooses those who are not suspended, the most urgent first, and at most `rows` of them. Of those that are alike in this
/// each user has a row before any has two, and so on; of one user who joined first comes first.
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

/// One who has a prompt, as far as it is known before it has joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PrefillDemand {
    pub(crate) user: u32,
    pub(crate) priority: Priority,
    /// How much of the time of prompts its user has had.
    pub(crate) prefill_time: Duration,
    /// Tokens of its prompt, at most: of what has not joined nobody knows how much is held.
    pub(crate) remaining: usize,
}

/// A prompt of fewer tokens takes no less time: the weights are read all the same.
const FEW: usize = 32;

/// What a prompt costs, of which so much is unread, beside others.
fn costs(remaining: usize) -> usize {
    remaining.max(FEW)
}

/// Whether a slice of somebody's prompt is left for one who has just come; `ends` says that the prompt ends with it, `slack` is
/// that of `next`. Which of them goes on then is what `next` says: nothing is left for who would be read after it.
pub(crate) fn preempts_slice(
    comes: PrefillDemand,
    reads: PrefillDemand,
    ends: bool,
    slack: Duration,
) -> bool {
    let key = |one: PrefillDemand| (costs(one.remaining), one.prefill_time);
    let is_before = key(reads) <= key(comes) && reads.prefill_time <= comes.prefill_time + slack;
    match comes.priority.cmp(&reads.priority) {
        Ordering::Greater => true,
        Ordering::Equal => comes.user != reads.user && !(ends && is_before),
        Ordering::Less => false,
    }
}

/// Whether a step of those who have joined is left for `one` who comes, as it would be read before that step; the others as for `next`.
pub(crate) fn preempts_step(
    all: &[Candidate],
    one: Candidate,
    rows: usize,
    owed: bool,
    slack: Duration,
) -> bool {
    let joins = placement(all, rows, (one.user, one.priority), |_| true);
    let all = [all, &[one]].concat();
    let is_it = |next| matches!(next, Next::Prefill { id, .. } if id == one.id);
    joins != Placement::NoRow && is_it(next(&all, rows, owed, slack))
}

/// What to do with those who have joined. `owed` says that prompts have had their share of the time for now. Whoever is
/// `realtime` does not wait for steps of `background`, and a short question for none that are due for prompts of others, unless
/// who answers is more urgent.
///
/// Of several prompts the most urgent is read on. Of those that are alike in this, of each user the connection is first that has
/// had the least of the time, and of one connection the prompt that ends first. Of users that one is next who has had the least;
/// but of those who have had no more than a slice, `slack`, more, whose prompt takes the least, of a few tokens who has had less. So a
/// short question of a user who has not asked for much waits for nobody, however long the prompts of others are.
pub(crate) fn next(all: &[Candidate], rows: usize, owed: bool, slack: Duration) -> Next {
    let active = active(all, rows);
    let of = |stage| active.iter().filter(move |one| one.stage == stage);
    let answering: Vec<_> = of(Stage::Decode).collect();
    let reading: Vec<_> = of(Stage::Prefill).collect();
    let reader = next_prefill(&reading, slack);
    let step = || Next::Step(answering.iter().map(|one| one.id).collect());
    let Some(reader) = reader else {
        return if answering.is_empty() {
            Next::Idle
        } else {
            step()
        };
    };
    let waits = |one: &&&Candidate| {
        reader.priority != Priority::Realtime || one.priority != Priority::Background
    };
    let read = |reader: &Candidate| Next::Prefill {
        id: reader.id,
        others: all.len() - 1,
    };
    if owed && answering.iter().any(|one| waits(&one)) {
        let urgent = answering.iter().map(|one| one.priority).max();
        let passing = |one: &&Candidate| one.passes && Some(one.priority) >= urgent;
        let passing: Vec<_> = reading.iter().copied().filter(passing).collect();
        return next_prefill(&passing, slack).map_or_else(step, read);
    }
    read(reader)
}

/// Whose prompt is read on.
fn next_prefill<'a>(reading: &[&'a Candidate], slack: Duration) -> Option<&'a Candidate> {
    let urgent = reading.iter().map(|one| one.priority).max()?;
    let all = || reading.iter().filter(|one| one.priority == urgent);
    let least = all().map(|one| one.prefill_time.user).min()?;
    let order = |one: &&&'a Candidate| (one.prefill_time, one.remaining);
    let is_users_first = |one: &&&'a Candidate| {
        let theirs = all().filter(|other| other.user == one.user);
        theirs
            .min_by_key(order)
            .is_some_and(|first| first.id == one.id)
    };
    let alike = all().filter(|one| one.prefill_time.user <= least + slack && is_users_first(one));
    alike
        .min_by_key(|one| (costs(one.remaining), one.prefill_time))
        .copied()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::engine::caller::client::Client;
    use crate::engine::schedule::prefill_time::PrefillTimes;
    use Priority::{Background, Normal, Realtime};
    use Stage::{Decode, Prefill};

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn candidates(all: &[(Priority, Stage)]) -> Vec<Candidate> {
        let number = |(id, (priority, stage)): (u64, &(Priority, Stage))| Candidate {
            id,
            // Each is another user's.
            user: u32::try_from(id).expect("it is small"),
            priority: *priority,
            stage: *stage,
            prefill_time: PrefillTime::default(),
            remaining: usize::from(*stage == Prefill),
            passes: false,
        };
        (0..).zip(all).map(number).collect()
    }

    #[test]
    fn realtime_makes_background_rest_when_rows_are_short_and_give_way_when_pages_are() {
        let full = candidates(&[(Normal, Decode), (Background, Decode)]);
        let (yes, in_place) = (
            |_: &[u64]| true,
            |least| move |ids: &[u64]| ids.len() >= least,
        );
        assert_eq!(placement(&full, 2, (9, Normal), yes), Placement::NoRow);
        assert_eq!(placement(&full, 2, (9, Background), yes), Placement::NoRow);
        assert_eq!(placement(&full, 2, (9, Realtime), yes), Placement::Fits);
        let one = Placement::Preempting(vec![1]);
        assert_eq!(placement(&full, 2, (9, Realtime), in_place(1)), one);
        assert_eq!(
            placement(&full, 2, (9, Realtime), in_place(2)),
            Placement::NoPages
        );
        let rest = candidates(&[(Background, Decode), (Background, Prefill)]);
        let both = Placement::Preempting(vec![1, 0]);
        assert_eq!(placement(&rest, 2, (9, Realtime), in_place(2)), both);
        assert_eq!(
            placement(&rest, 3, (9, Normal), in_place(1)),
            Placement::NoPages
        );
        let urgent = candidates(&[(Realtime, Decode), (Normal, Decode)]);
        assert_eq!(placement(&urgent, 2, (9, Realtime), yes), Placement::NoRow);

        let three = [(Background, Decode), (Normal, Decode), (Realtime, Decode)];
        assert_eq!(
            next(&candidates(&three), 2, false, Duration::ZERO),
            Next::Step(vec![2, 1])
        );
        assert_eq!(
            next(&candidates(&three), 4, false, Duration::ZERO),
            Next::Step(vec![2, 1, 0])
        );
    }

    #[test]
    fn prompts_are_read_in_turn_with_steps_but_realtime_waits_for_no_background() {
        let both = |reader, other| candidates(&[(other, Decode), (reader, Prefill)]);
        let read = Next::Prefill { id: 1, others: 1 };
        assert_eq!(next(&both(Normal, Normal), 8, false, Duration::ZERO), read);
        assert_eq!(
            next(&both(Normal, Normal), 8, true, Duration::ZERO),
            Next::Step(vec![0])
        );
        assert_eq!(
            next(&both(Realtime, Normal), 8, true, Duration::ZERO),
            Next::Step(vec![0])
        );
        assert_eq!(
            next(&both(Realtime, Background), 8, true, Duration::ZERO),
            read
        );
        let readers = candidates(&[(Background, Prefill), (Normal, Prefill), (Normal, Prefill)]);
        let first = Next::Prefill { id: 1, others: 2 };
        assert_eq!(next(&readers, 8, true, Duration::ZERO), first);
    }

    #[test]
    fn a_short_question_does_not_wait_for_steps_that_others_owe() {
        let stages = [(Normal, Decode), (Normal, Prefill), (Normal, Prefill)];
        let mut all = candidates(&stages);
        (all[1].prefill_time.user, all[2].prefill_time.user) = (ms(2), ms(3));
        assert_eq!(next(&all, 8, true, Duration::ZERO), Next::Step(vec![0]));
        all[2].passes = true;
        assert_eq!(
            next(&all, 8, true, Duration::ZERO),
            Next::Prefill { id: 2, others: 2 }
        );
        assert_eq!(
            next(&all, 8, false, Duration::ZERO),
            Next::Prefill { id: 1, others: 2 }
        );
        // Whoever is answered and more urgent does not wait for it.
        all[0].priority = Realtime;
        assert_eq!(next(&all, 8, true, Duration::ZERO), Next::Step(vec![0]));
    }

    #[test]
    fn of_users_who_have_had_about_as_much_the_shortest_prompt_is_next() {
        let mut all = candidates(&[(Normal, Prefill); 3]);
        (
            all[0].prefill_time.user,
            all[1].prefill_time.user,
            all[2].prefill_time.user,
        ) = (ms(2), ms(0), ms(30));
        (all[0].remaining, all[1].remaining, all[2].remaining) = (1, 500, 1);
        let first = |id| Next::Prefill { id, others: 2 };
        assert_eq!(next(&all, 8, false, ms(20)), first(0));
        assert_eq!(next(&all, 8, false, ms(1)), first(1));
        // Of one user the connection counts that has had the least.
        all[0].user = all[1].user;
        all[0].prefill_time = PrefillTime {
            user: ms(0),
            connection: ms(2),
        };
        assert_eq!(next(&all, 8, false, ms(20)), first(1));
    }

    #[test]
    fn a_slice_is_left_for_who_is_more_urgent_and_for_another_user() {
        let asks = |user, priority, remaining| PrefillDemand {
            user,
            priority,
            prefill_time: ms(0),
            remaining,
        };
        let reads = asks(1, Normal, 300);
        let left = |comes| [false, true].map(|ends| preempts_slice(comes, reads, ends, ms(20)));
        assert_eq!(left(asks(2, Normal, 299)), [true, true]);
        assert_eq!(left(asks(2, Normal, 300)), [true, false], "it ends first");
        assert_eq!(left(asks(1, Normal, 1)), [false, false]);
        let few = |user, remaining, prefill_time| PrefillDemand {
            prefill_time,
            ..asks(user, Normal, remaining)
        };
        // A few tokens take as long as one: who has had more gives way.
        let gives_way = |reads| preempts_slice(few(2, 20, ms(0)), reads, true, ms(20));
        assert!(!gives_way(few(1, 1, ms(0))) && gives_way(few(1, 1, ms(1))));
        assert_eq!(left(asks(1, Realtime, 9000)), [true, true]);
        assert_eq!(left(asks(2, Background, 1)), [false, false]);
        let served = PrefillDemand {
            prefill_time: ms(21),
            ..reads
        };
        assert!(preempts_slice(asks(2, Normal, 9000), served, true, ms(20)));
    }

    #[test]
    fn a_step_is_left_for_who_would_be_read_before_it() {
        let answering = candidates(&[(Normal, Decode), (Background, Decode)]);
        let comes = |priority, passes| Candidate {
            id: 9,
            user: 9,
            passes,
            ..candidates(&[(priority, Prefill)])[0]
        };
        let left = |one, rows, owed| preempts_step(&answering, one, rows, owed, ms(20));
        assert!(left(comes(Normal, false), 8, false));
        assert!(!left(comes(Normal, false), 8, true), "steps are due");
        assert!(left(comes(Normal, true), 8, true), "not for its prompt");
        assert!(!left(comes(Normal, true), 2, false), "there is no row");
        assert!(left(comes(Realtime, true), 2, true));
        let before = candidates(&[(Realtime, Prefill), (Normal, Decode)]);
        let one = comes(Normal, true);
        assert!(
            !preempts_step(&before, one, 8, false, ms(20)),
            "it is not next"
        );
    }

    /// Whoever reads: who has had the least, of a user which connection, then what ends first.
    #[test]
    fn a_short_prompt_comes_before_those_of_who_has_had_more() {
        const SLICE: usize = 500;
        let client = |user: u32, connection: u32| Client {
            name: format!(":1.{connection}").into(),
            user,
        };
        // User 1 reads a lot by two connections, in slices that take four times as long as those of user 2.
        let prompts = [
            (client(1, 1), 20_000, ms(20)),
            (client(1, 1), 10_000, ms(20)),
            (client(1, 2), 20_000, ms(20)),
            (client(2, 3), 4_000, ms(5)),
        ];
        let (mut prefill_times, mut order) = (PrefillTimes::default(), Vec::new());
        let mut remaining = prompts.each_ref().map(|(_, tokens, _)| *tokens);
        prefill_times.add(&prompts[0].0, ms(50));
        while remaining.iter().any(|remaining| *remaining > 0) {
            let mut all = candidates(&[(Normal, Prefill); 4]);
            for (one, (client, ..)) in all.iter_mut().zip(&prompts) {
                (one.user, one.prefill_time) = (client.user, prefill_times.of(client));
                one.remaining = remaining[usize::try_from(one.id).expect("it is small")];
            }
            all.retain(|one| one.remaining > 0);
            let Next::Prefill { id, .. } = next(&all, 8, false, Duration::ZERO) else {
                panic!("somebody reads");
            };
            let at = usize::try_from(id).expect("it is small");
            let (client, _, took) = &prompts[at];
            prefill_times.add(client, *took);
            remaining[at] = remaining[at].saturating_sub(SLICE);
            order.push(id);
        }
        assert_eq!(order[..8], [3; 8], "it had the least till its end");
        // The other connection until both have had as much; then the shorter prompt of the first, and they take turns.
        assert_eq!(order[8..15], [2, 2, 2, 1, 2, 1, 2]);
        let last = |id: u64| order.iter().rposition(|other| *other == id);
        assert!(last(1) < last(0), "what is shorter ended first");
        let urgent = [(Normal, Prefill), (Realtime, Prefill)];
        let mut urgent = candidates(&urgent);
        (urgent[1].prefill_time, urgent[1].remaining) = (
            PrefillTime {
                user: ms(9),
                connection: ms(9),
            },
            9000,
        );
        let first = Next::Prefill { id: 1, others: 1 };
        assert_eq!(next(&urgent, 8, false, Duration::ZERO), first);
    }

    /// Rows of 8 that users have, once one after another has asked for so many of such a priority.
    fn shared(asked: &[(u32, usize, Priority)]) -> Vec<usize> {
        let mut all = Vec::new();
        for (user, many, priority) in asked {
            for _ in 0..*many {
                if placement(&all, 8, (*user, *priority), |_| true) == Placement::Fits {
                    let mut one = candidates(&[(*priority, Decode)]).remove(0);
                    (one.id, one.user) = (all.len() as u64, *user);
                    all.push(one);
                }
            }
        }
        let active = active(&all, 8);
        let rows = |user: u32| active.iter().filter(|one| one.user == user).count();
        asked.iter().map(|(user, ..)| rows(*user)).collect()
    }

    #[test]
    fn rows_are_shared_among_users_who_wait() {
        assert_eq!(shared(&[(1, 9, Normal)]), [8], "nobody else waits");
        assert_eq!(shared(&[(1, 9, Normal), (2, 1, Normal)]), [7, 1]);
        assert_eq!(shared(&[(1, 9, Normal), (2, 9, Normal)]), [4, 4]);
        let three = [(1, 9, Normal), (2, 9, Normal), (3, 9, Normal)];
        assert_eq!(shared(&three), [3, 3, 2]);
        // Who is more urgent does not rest, who is less so does.
        assert_eq!(shared(&[(1, 9, Normal), (2, 9, Background)]), [8, 0]);
        assert_eq!(shared(&[(1, 9, Background), (2, 9, Normal)]), [4, 4]);
        assert_eq!(shared(&[(1, 9, Normal), (2, 1, Realtime)]), [7, 1]);
        // With a row each, all wait for the first that ends.
        let each: Vec<_> = (1..10).map(|user| (user, 1, Normal)).collect();
        assert_eq!(shared(&each), [1, 1, 1, 1, 1, 1, 1, 1, 0]);
    }

    fn anyone() -> impl Strategy<Value = Candidate> {
        let priority = select(&Priority::ALL[..]);
        let prefill_time = (0..9_u64, 0..9_u64).prop_map(|(user, connection)| PrefillTime {
            user: ms(user),
            connection: ms(connection),
        });
        let about = (
            0..4_u32,
            priority,
            0..900_usize,
            prefill_time,
            any::<bool>(),
        );
        about.prop_map(
            |(user, priority, remaining, prefill_time, passes)| Candidate {
                id: 0,
                user,
                priority,
                stage: if remaining < 450 { Decode } else { Prefill },
                prefill_time,
                remaining,
                passes,
            },
        )
    }

    /// What a user has had is the same whichever of its connections asks.
    fn numbered(mut all: Vec<Candidate>) -> Vec<Candidate> {
        let before = all.clone();
        for (id, one) in (0..).zip(&mut all) {
            let of_user = before.iter().find(|other| other.user == one.user);
            one.id = id;
            one.prefill_time.user =
                of_user.map_or(one.prefill_time.user, |first| first.prefill_time.user);
        }
        all
    }

    proptest! {
        /// Whatever is the case: nobody is forgotten for another of less priority, nor for another of a user who has more rows;
        /// rows are never exceeded, and as long as anybody is there something is done.
        #[test]
        fn whoever_is_there_gets_on_by_priority(
            all in vec(anyone(), 0..12).prop_map(numbered),
            rows in 1..9_usize,
            owed in any::<bool>(),
            slack in (0..5_u64).prop_map(ms),
        ) {
            let active = active(&all, rows);
            prop_assert_eq!(active.len(), all.len().min(rows));
            let of = |user: u32, priority| {
                let theirs = active.iter().filter(|one| one.user == user);
                theirs.filter(|one| one.priority >= priority).count()
            };
            for rests in all.iter().filter(|one| !active.contains(one)) {
                for runs in &active {
                    prop_assert!(rests.priority <= runs.priority);
                    let alike = rests.priority == runs.priority;
                    let (theirs, others) = (of(rests.user, rests.priority), of(runs.user, runs.priority));
                    prop_assert!(!alike || others <= theirs + 1, "{:?} rests: {:?}", rests, active);
                }
            }
            match next(&all, rows, owed, slack) {
                Next::Idle => prop_assert!(all.is_empty()),
                Next::Step(ids) => {
                    let answering = active.iter().filter(|one| one.stage == Decode);
                    prop_assert!(ids.iter().copied().eq(answering.map(|one| one.id)));
                    prop_assert!(!ids.is_empty());
                    prop_assert!(owed || active.iter().all(|one| one.stage == Decode));
                }
                Next::Prefill { id, .. } => {
                    let reads = active.iter().find(|one| one.id == id);
                    let reads = reads.expect("one of those who are active");
                    prop_assert_eq!(reads.stage, Prefill);
                    let answering = active.iter().filter(|one| one.stage == Decode);
                    let urgent = answering.map(|one| one.priority).max();
                    let waits = owed && urgent >= Some(if reads.priority == Realtime { Normal } else { Background });
                    prop_assert!(!waits || (reads.passes && Some(reads.priority) >= urgent));
                    let may_read = |one: &&Candidate| one.stage == Prefill && (!waits || one.passes);
                    let readers: Vec<_> = active.iter().filter(may_read).collect();
                    prop_assert!(readers.iter().all(|other| other.priority <= reads.priority));
                    let alike = || readers.iter().filter(|other| other.priority == reads.priority);
                    prop_assert!(alike().all(|other| reads.prefill_time.user <= other.prefill_time.user + slack));
                    let order = |one: &Candidate| (one.prefill_time.connection, one.remaining);
                    let mut theirs = alike().filter(|other| other.user == reads.user);
                    prop_assert!(theirs.all(|other| order(reads) <= order(other)), "{} of {:?}", id, active);
                    let shorter = |other: &Candidate| other.remaining < reads.remaining && other.prefill_time.user <= reads.prefill_time.user;
                    let mut users = alike().filter(|other| shorter(other));
                    let behind = |other: &Candidate| {
                        alike().any(|one| one.user == other.user && order(one) < order(other))
                    };
                    prop_assert!(users.all(|other| behind(other)), "{} of {:?}", id, active);
                }
            }
        }

        /// Whoever joins has a row at once, which only `background` has lost to `realtime`, or a user with more rows.
        #[test]
        fn whoever_joins_has_a_row(
            all in vec(anyone(), 0..12).prop_map(numbered),
            rows in 1..9_usize,
            one in anyone(),
            least in 0..4_usize,
        ) {
            let joins = placement(&all, rows, (one.user, one.priority), |ids| ids.len() >= least);
            let before = active(&all, rows);
            let of = |user: u32| before.iter().filter(|other| other.user == user).count();
            if let Placement::Preempting(ids) = &joins {
                let gives = all.iter().filter(|other| ids.contains(&other.id));
                let gives: Vec<_> = gives.map(|other| other.priority).collect();
                prop_assert_eq!((one.priority, gives), (Realtime, vec![Background; least]));
            }
            if all.len() < rows && least == 0 {
                prop_assert_eq!(&joins, &Placement::Fits);
            }
            if joins == Placement::Fits {
                let joined = numbered([all.clone(), vec![one]].concat());
                let after = active(&joined, rows);
                prop_assert!(after.contains(&joined[all.len()]), "it joined to wait");
                for rests in before.iter().filter(|other| !after.contains(other)) {
                    let urgent = (one.priority, rests.priority) == (Realtime, Background);
                    let shares = rests.priority <= one.priority && of(rests.user) > of(one.user) + 1;
                    prop_assert!(urgent || shares, "{:?} rests for {:?}", rests, one);
                }
            }
        }
    }
}

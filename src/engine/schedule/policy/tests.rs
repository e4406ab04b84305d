//! The order of requests, slices and steps, without an engine thread.

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
    let number = |(slot, (priority, stage)): (usize, &(Priority, Stage))| Candidate {
        slot,
        // Each has another user.
        user: u32::try_from(slot).expect("it is small"),
        priority: *priority,
        stage: *stage,
        prefill_time: PrefillTime::default(),
        remaining: usize::from(*stage == Prefill),
        passes: false,
    };
    (0..).zip(all).map(number).collect()
}

#[test]
fn realtime_suspends_background_when_rows_are_short_and_preempts_it_when_pages_are() {
    let full = candidates(&[(Normal, Decode), (Background, Decode)]);
    let (yes, in_place) = (
        |_: &[usize]| true,
        |least| move |slots: &[usize]| slots.len() >= least,
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
fn prefills_and_steps_alternate_but_realtime_does_not_wait_for_background() {
    let both = |reader, other| candidates(&[(other, Decode), (reader, Prefill)]);
    let read = Next::Prefill { slot: 1, others: 1 };
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
    let first = Next::Prefill { slot: 1, others: 2 };
    assert_eq!(next(&readers, 8, true, Duration::ZERO), first);
}

#[test]
fn a_short_prompt_does_not_wait_for_steps_that_others_owe() {
    let stages = [(Normal, Decode), (Normal, Prefill), (Normal, Prefill)];
    let mut all = candidates(&stages);
    (all[1].prefill_time.user, all[2].prefill_time.user) = (ms(2), ms(3));
    assert_eq!(next(&all, 8, true, Duration::ZERO), Next::Step(vec![0]));
    all[2].passes = true;
    assert_eq!(
        next(&all, 8, true, Duration::ZERO),
        Next::Prefill { slot: 2, others: 2 }
    );
    assert_eq!(
        next(&all, 8, false, Duration::ZERO),
        Next::Prefill { slot: 1, others: 2 }
    );
    // A more urgent generation that decodes does not wait for it.
    all[0].priority = Realtime;
    assert_eq!(next(&all, 8, true, Duration::ZERO), Next::Step(vec![0]));
}

#[test]
fn of_users_with_similar_prefill_time_the_shortest_prompt_is_next() {
    let mut all = candidates(&[(Normal, Prefill); 3]);
    (
        all[0].prefill_time.user,
        all[1].prefill_time.user,
        all[2].prefill_time.user,
    ) = (ms(2), ms(0), ms(30));
    (all[0].remaining, all[1].remaining, all[2].remaining) = (1, 500, 1);
    let first = |slot| Next::Prefill { slot, others: 2 };
    assert_eq!(next(&all, 8, false, ms(20)), first(0));
    assert_eq!(next(&all, 8, false, ms(1)), first(1));
    // Of one user, the connection with the least prefill time comes first.
    all[0].user = all[1].user;
    all[0].prefill_time = PrefillTime {
        user: ms(0),
        connection: ms(2),
    };
    assert_eq!(next(&all, 8, false, ms(20)), first(1));
}

#[test]
fn a_slice_is_preempted_by_a_more_urgent_request_and_by_another_user() {
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
    // A few tokens take as long as one, so the user with more prefill time is preempted.
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
fn a_step_is_preempted_by_a_prompt_that_is_prefilled_before_it() {
    let answering = candidates(&[(Normal, Decode), (Background, Decode)]);
    let comes = |priority, passes| Candidate {
        slot: 9,
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

/// The order is by the user's prefill time, the connection's, then the length of the prompt.
/// A short prompt may come before the long one of a user with less time, but not again and again.
#[test]
fn a_user_with_short_prompts_gets_no_more_time_than_another() {
    let slice = ms(20);
    let client = |user: u32| Client {
        name: format!(":1.{user}").into(),
        user,
    };
    let clients = [client(1), client(2)];
    let (mut prefill_times, mut had) = (PrefillTimes::default(), [Duration::ZERO; 2]);
    for _ in 0..1000 {
        let mut all = candidates(&[(Normal, Prefill); 2]);
        for (one, (client, remaining)) in all.iter_mut().zip(clients.iter().zip([20_000, 100])) {
            (one.user, one.prefill_time) = (client.user, prefill_times.of(client));
            one.remaining = remaining;
        }
        let Next::Prefill { slot, .. } = next(&all, 8, false, slice) else {
            panic!("both have a prompt");
        };
        let waiting = all.iter().map(|one| one.prefill_time.user).min();
        prefill_times.add(&clients[slot], slice, waiting.unwrap_or(Duration::MAX));
        had[slot] += slice;
    }
    assert!(had[0].abs_diff(had[1]) <= 3 * slice, "{had:?}");
}

#[test]
fn a_user_with_less_prefill_time_comes_first() {
    const SLICE: usize = 500;
    let client = |user: u32, connection: u32| Client {
        name: format!(":1.{connection}").into(),
        user,
    };
    // User 1 has long prompts of two connections, in slices that take four times as long as those of user 2.
    let prompts = [
        (client(1, 1), 20_000, ms(20)),
        (client(1, 1), 10_000, ms(20)),
        (client(1, 2), 20_000, ms(20)),
        (client(2, 3), 4_000, ms(5)),
    ];
    let (mut prefill_times, mut order) = (PrefillTimes::default(), Vec::new());
    let mut remaining = prompts.each_ref().map(|(_, tokens, _)| *tokens);
    prefill_times.add(&prompts[0].0, ms(50), Duration::MAX);
    while remaining.iter().any(|remaining| *remaining > 0) {
        let mut all = candidates(&[(Normal, Prefill); 4]);
        for (one, (client, ..)) in all.iter_mut().zip(&prompts) {
            (one.user, one.prefill_time) = (client.user, prefill_times.of(client));
            one.remaining = remaining[one.slot];
        }
        all.retain(|one| one.remaining > 0);
        let Next::Prefill { slot, .. } = next(&all, 8, false, Duration::ZERO) else {
            panic!("a prompt is left");
        };
        let (client, _, took) = &prompts[slot];
        prefill_times.add(client, *took, Duration::MAX);
        remaining[slot] = remaining[slot].saturating_sub(SLICE);
        order.push(slot);
    }
    assert_eq!(order[..8], [3; 8], "it had the least till its end");
    // The other connection until both have had as much, then they alternate; of the first, the shorter prompt.
    assert_eq!(order[8..15], [2, 2, 2, 1, 2, 1, 2]);
    let last = |slot: usize| order.iter().rposition(|other| *other == slot);
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
    let first = Next::Prefill { slot: 1, others: 1 };
    assert_eq!(next(&urgent, 8, false, Duration::ZERO), first);
}

/// Returns how many of 8 rows each user has, after the users have sent these numbers of requests of a priority.
fn shared(asked: &[(u32, usize, Priority)]) -> Vec<usize> {
    let mut all = Vec::new();
    for (user, many, priority) in asked {
        for _ in 0..*many {
            if placement(&all, 8, (*user, *priority), |_| true) == Placement::Fits {
                let mut one = candidates(&[(*priority, Decode)]).remove(0);
                (one.slot, one.user) = (all.len(), *user);
                all.push(one);
            }
        }
    }
    let active = active(&all, 8);
    let rows = |user: u32| active.iter().filter(|one| one.user == user).count();
    asked.iter().map(|(user, ..)| rows(*user)).collect()
}

#[test]
fn rows_are_shared_among_waiting_users() {
    assert_eq!(shared(&[(1, 9, Normal)]), [8], "no other user waits");
    assert_eq!(shared(&[(1, 9, Normal), (2, 1, Normal)]), [7, 1]);
    assert_eq!(shared(&[(1, 9, Normal), (2, 9, Normal)]), [4, 4]);
    let three = [(1, 9, Normal), (2, 9, Normal), (3, 9, Normal)];
    assert_eq!(shared(&three), [3, 3, 2]);
    // A more urgent generation is not suspended, a less urgent one is.
    assert_eq!(shared(&[(1, 9, Normal), (2, 9, Background)]), [8, 0]);
    assert_eq!(shared(&[(1, 9, Background), (2, 9, Normal)]), [4, 4]);
    assert_eq!(shared(&[(1, 9, Normal), (2, 1, Realtime)]), [7, 1]);
    // A ninth user waits until one of eight ends.
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
            slot: 0,
            user,
            priority,
            stage: if remaining < 450 { Decode } else { Prefill },
            prefill_time,
            remaining,
            passes,
        },
    )
}

/// Numbers the candidates, and gives those of one user the same prefill time.
fn numbered(mut all: Vec<Candidate>) -> Vec<Candidate> {
    let before = all.clone();
    for (slot, one) in (0..).zip(&mut all) {
        let of_user = before.iter().find(|other| other.user == one.user);
        one.slot = slot;
        one.prefill_time.user =
            of_user.map_or(one.prefill_time.user, |first| first.prefill_time.user);
    }
    all
}

proptest! {
    /// A candidate is suspended neither for one of less priority, nor for one of a user with more rows. There are never more
    /// than `rows`, and something runs while there is a candidate.
    #[test]
    fn candidates_run_by_priority(
        all in vec(anyone(), 0..12).prop_map(numbered),
        rows in 1..9_usize,
        steps_due in any::<bool>(),
        slack in (0..5_u64).prop_map(ms),
    ) {
        let active = active(&all, rows);
        prop_assert_eq!(active.len(), all.len().min(rows));
        let of = |user: u32, priority| {
            let theirs = active.iter().filter(|one| one.user == user);
            theirs.filter(|one| one.priority >= priority).count()
        };
        for suspended in all.iter().filter(|one| !active.contains(one)) {
            for runs in &active {
                prop_assert!(suspended.priority <= runs.priority);
                let alike = suspended.priority == runs.priority;
                let (theirs, others) = (of(suspended.user, suspended.priority), of(runs.user, runs.priority));
                prop_assert!(!alike || others <= theirs + 1, "{:?} is suspended: {:?}", suspended, active);
            }
        }
        match next(&all, rows, steps_due, slack) {
            Next::Idle => prop_assert!(all.is_empty()),
            Next::Step(slots) => {
                let decoding = active.iter().filter(|one| one.stage == Decode);
                prop_assert!(slots.iter().copied().eq(decoding.map(|one| one.slot)));
                prop_assert!(!slots.is_empty());
                prop_assert!(steps_due || active.iter().all(|one| one.stage == Decode));
            }
            Next::Prefill { slot, .. } => {
                let reads = active.iter().find(|one| one.slot == slot);
                let reads = reads.expect("one of those who are active");
                prop_assert_eq!(reads.stage, Prefill);
                let decoding = active.iter().filter(|one| one.stage == Decode);
                let urgent = decoding.map(|one| one.priority).max();
                let waits = steps_due && urgent >= Some(if reads.priority == Realtime { Normal } else { Background });
                prop_assert!(!waits || (reads.passes && Some(reads.priority) >= urgent));
                let may_read = |one: &&Candidate| one.stage == Prefill && (!waits || one.passes);
                let readers: Vec<_> = active.iter().filter(may_read).collect();
                prop_assert!(readers.iter().all(|other| other.priority <= reads.priority));
                let alike = || readers.iter().filter(|other| other.priority == reads.priority);
                prop_assert!(alike().all(|other| reads.prefill_time.user <= other.prefill_time.user + slack));
                let order = |one: &Candidate| (one.prefill_time.connection, one.remaining);
                let mut theirs = alike().filter(|other| other.user == reads.user);
                prop_assert!(theirs.all(|other| order(reads) <= order(other)), "{} of {:?}", slot, active);
                let shorter = |other: &Candidate| other.remaining < reads.remaining && other.prefill_time.user <= reads.prefill_time.user;
                let mut users = alike().filter(|other| shorter(other));
                let behind = |other: &Candidate| {
                    alike().any(|one| one.user == other.user && order(one) < order(other))
                };
                prop_assert!(users.all(|other| behind(other)), "{} of {:?}", slot, active);
            }
        }
    }

    /// The row is free, or taken from `background` by `realtime`, or from a user with more rows.
    #[test]
    fn a_request_that_joins_has_a_row(
        all in vec(anyone(), 0..12).prop_map(numbered),
        rows in 1..9_usize,
        one in anyone(),
        least in 0..4_usize,
    ) {
        let placed = placement(&all, rows, (one.user, one.priority), |slots| slots.len() >= least);
        let before = active(&all, rows);
        let of = |user: u32| before.iter().filter(|other| other.user == user).count();
        if let Placement::Preempting(slots) = &placed {
            let gives = all.iter().filter(|other| slots.contains(&other.slot));
            let gives: Vec<_> = gives.map(|other| other.priority).collect();
            prop_assert_eq!((one.priority, gives), (Realtime, vec![Background; least]));
        }
        if all.len() < rows && least == 0 {
            prop_assert_eq!(&placed, &Placement::Fits);
        }
        if placed == Placement::Fits {
            let joined = numbered([all.clone(), vec![one]].concat());
            let after = active(&joined, rows);
            prop_assert!(after.contains(&joined[all.len()]), "it joined to wait");
            for suspended in before.iter().filter(|other| !after.contains(other)) {
                let urgent = (one.priority, suspended.priority) == (Realtime, Background);
                let shares = suspended.priority <= one.priority && of(suspended.user) > of(one.user) + 1;
                prop_assert!(urgent || shares, "{:?} is suspended for {:?}", suspended, one);
            }
        }
    }
}

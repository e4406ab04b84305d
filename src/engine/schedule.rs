//! What the engine does next: who may join those that are answered, which of them step together, and whose prompt is read
//! on. Plain functions of what is the case; nothing here waits, measures or runs.

use super::Priority;

/// What one of those that have joined is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Some of its prompt is unread.
    Reading,
    /// Its next token comes by a step.
    Answering,
}

/// One of those that have joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) id: u64,
    pub(super) priority: Priority,
    pub(super) stage: Stage,
}

/// How one may join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Joins {
    /// There are pages for it.
    Beside,
    /// These give up their pages, and begin again when there are others.
    InPlaceOf(Vec<u64>),
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Read some of this one's prompt; while it is read, so many others could go on.
    Read { id: u64, others: usize },
    /// These step together.
    Step(Vec<u64>),
    /// Nobody is there.
    Rest,
}

/// Whether one of such a priority may join `all`, who stand in the order in which they joined; `room` says whether there are
/// pages for it if some of them gave theirs up. Nobody joins to wait for a row, but `realtime` does not count `background`,
/// which makes way for it, the last first.
pub(super) fn joins(
    all: &[Standing],
    rows: usize,
    priority: Priority,
    room: impl Fn(&[u64]) -> bool,
) -> Option<Joins> {
    let makes_way =
        |one: &&Standing| priority == Priority::Realtime && one.priority == Priority::Background;
    if all.iter().filter(|one| !makes_way(one)).count() >= rows {
        return None;
    }
    if room(&[]) {
        return Some(Joins::Beside);
    }
    let mut leaving = Vec::new();
    for one in all.iter().rev().filter(makes_way) {
        leaving.push(one.id);
        if room(&leaving) {
            return Some(Joins::InPlaceOf(leaving));
        }
    }
    None
}

/// Those who are not suspended, the most urgent first: at most `rows`.
pub(super) fn active(all: &[Standing], rows: usize) -> Vec<Standing> {
    let mut active = all.to_vec();
    // Who joined first comes first among equals.
    active.sort_by_key(|one| std::cmp::Reverse(one.priority));
    active.truncate(rows);
    active
}

/// What to do with those who have joined. `owed` says that prompts have had their share of the time for now. Whoever is
/// `realtime` does not wait for steps of `background`.
pub(super) fn next(all: &[Standing], rows: usize, owed: bool) -> Next {
    let active = active(all, rows);
    let of = |stage| active.iter().filter(move |one| one.stage == stage);
    let answering: Vec<_> = of(Stage::Answering).collect();
    let step = || Next::Step(answering.iter().map(|one| one.id).collect());
    let Some(reader) = of(Stage::Reading).next() else {
        return if answering.is_empty() {
            Next::Rest
        } else {
            step()
        };
    };
    let waits = |one: &&&Standing| {
        reader.priority != Priority::Realtime || one.priority != Priority::Background
    };
    if owed && answering.iter().any(|one| waits(&one)) {
        return step();
    }
    Next::Read {
        id: reader.id,
        others: all.len() - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Priority::{Background, Normal, Realtime};
    use Stage::{Answering, Reading};

    fn standing(all: &[(Priority, Stage)]) -> Vec<Standing> {
        let number = |(id, (priority, stage)): (u64, &(Priority, Stage))| Standing {
            id,
            priority: *priority,
            stage: *stage,
        };
        (0..).zip(all).map(number).collect()
    }

    #[test]
    fn realtime_makes_background_rest_when_rows_are_short_and_give_way_when_pages_are() {
        let full = standing(&[(Normal, Answering), (Background, Answering)]);
        let (yes, in_place) = (
            |_: &[u64]| true,
            |least| move |ids: &[u64]| ids.len() >= least,
        );
        assert_eq!(joins(&full, 2, Normal, yes), None);
        assert_eq!(joins(&full, 2, Background, yes), None);
        assert_eq!(joins(&full, 2, Realtime, yes), Some(Joins::Beside));
        let one = Some(Joins::InPlaceOf(vec![1]));
        assert_eq!(joins(&full, 2, Realtime, in_place(1)), one);
        assert_eq!(joins(&full, 2, Realtime, in_place(2)), None);
        let rest = standing(&[(Background, Answering), (Background, Reading)]);
        let both = Some(Joins::InPlaceOf(vec![1, 0]));
        assert_eq!(joins(&rest, 2, Realtime, in_place(2)), both);
        assert_eq!(joins(&rest, 3, Normal, in_place(1)), None);
        let urgent = standing(&[(Realtime, Answering), (Normal, Answering)]);
        assert_eq!(joins(&urgent, 2, Realtime, yes), None);

        let three = [
            (Background, Answering),
            (Normal, Answering),
            (Realtime, Answering),
        ];
        assert_eq!(next(&standing(&three), 2, false), Next::Step(vec![2, 1]));
        assert_eq!(next(&standing(&three), 4, false), Next::Step(vec![2, 1, 0]));
    }

    #[test]
    fn prompts_are_read_in_turn_with_steps_but_realtime_waits_for_no_background() {
        let both = |reader, other| standing(&[(other, Answering), (reader, Reading)]);
        let read = Next::Read { id: 1, others: 1 };
        assert_eq!(next(&both(Normal, Normal), 8, false), read);
        assert_eq!(next(&both(Normal, Normal), 8, true), Next::Step(vec![0]));
        assert_eq!(next(&both(Realtime, Normal), 8, true), Next::Step(vec![0]));
        assert_eq!(next(&both(Realtime, Background), 8, true), read);
        let readers = standing(&[(Background, Reading), (Normal, Reading), (Normal, Reading)]);
        let first = Next::Read { id: 1, others: 2 };
        assert_eq!(next(&readers, 8, true), first);
    }

    /// Whatever is the case: nobody is forgotten for another of less priority, rows are never exceeded, and as long as
    /// anybody is there something is done.
    #[test]
    fn whoever_is_there_gets_on_by_priority() {
        let mut random = fastrand::Rng::with_seed(16);
        for _ in 0..20_000 {
            let rows = random.usize(1..9);
            let one = |_| {
                let priority = [Background, Normal, Realtime][random.usize(0..3)];
                (priority, [Reading, Answering][random.usize(0..2)])
            };
            let all: Vec<_> = (0..12).map(one).take(rows + 3).collect();
            let all = standing(&all[..random.usize(0..=all.len())]);
            let active = active(&all, rows);
            assert_eq!(active.len(), all.len().min(rows));
            let least = active.iter().map(|one| one.priority).min();
            for rests in all.iter().filter(|one| !active.contains(one)) {
                assert!(Some(rests.priority) <= least, "{rests:?} rests: {active:?}");
            }
            let owed = random.usize(0..2) == 0;
            match next(&all, rows, owed) {
                Next::Rest => assert!(all.is_empty()),
                Next::Step(ids) => {
                    let answering = active.iter().filter(|one| one.stage == Answering);
                    assert!(ids.iter().copied().eq(answering.map(|one| one.id)));
                    assert!(!ids.is_empty());
                    assert!(owed || active.iter().all(|one| one.stage == Answering));
                }
                Next::Read { id, .. } => {
                    let mut readers = active.iter().filter(|one| one.stage == Reading);
                    assert_eq!(readers.next().map(|one| one.id), Some(id));
                }
            }
            for priority in [Background, Normal, Realtime] {
                let least = random.usize(1..4);
                let room = |ids: &[u64]| ids.len() >= least;
                if let Some(Joins::InPlaceOf(ids)) = joins(&all, rows, priority, room) {
                    let gives = |one: &&Standing| ids.contains(&one.id);
                    let gives: Vec<_> = all.iter().filter(gives).map(|one| one.priority).collect();
                    assert_eq!((priority, gives), (Realtime, vec![Background; least]));
                }
                let others = all.iter().filter(|one| one.priority >= priority).count();
                if all.len() < rows {
                    assert_eq!(joins(&all, rows, priority, |_| true), Some(Joins::Beside));
                } else if others >= rows {
                    assert_eq!(joins(&all, rows, priority, |_| true), None);
                }
            }
        }
    }
}

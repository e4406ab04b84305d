//! After a power cut at any moment, every confirmed turn is there, and nothing except its successors.

use std::io::ErrorKind;
use std::sync::{Arc, mpsc};

use super::memory::{Call, Memory};
use super::{Entry, QUOTA, USER, again, append, begin, name, path, store, turn};
use crate::model::Message;
use crate::model::Role;
use crate::session_store::{Durability, Name, Past};

/// Whether a conversation has exactly the first `turns` turns.
fn is_of(past: &Past, turns: usize) -> bool {
    let mut said = past.turns.iter().enumerate();
    past.turns.len() == turns
        && said.all(|(n, one)| one.answer.content == format!("answer {n}"))
        && past.messages[0].content == "be brief"
}

#[test]
fn a_power_cut_loses_nothing_that_was_told_to_be_kept() {
    const TURNS: usize = 4;
    let files = Arc::new(Memory::default());
    let one = store(files.clone());
    let stored = begin(&one).expect("made");
    files.confirmed("talk", 0);
    for n in 0..TURNS {
        append(&one, &stored, turn(n)).expect("kept");
        files.confirmed("talk", n + 1);
    }
    drop(one);
    let calls = files.calls();
    let mut states = 0;
    for cut in 0..=calls.len() {
        let confirmed = calls[..cut].iter().rev().find_map(|call| match call {
            Call::Confirmed(_, turns) => Some(*turns),
            _ => None,
        });
        for disk in Memory::after_a_cut(&calls[..cut]) {
            states += 1;
            let past = again(&disk).unwrap_or_else(|error| panic!("after {cut} calls: {error}"));
            let right = match (&past, confirmed) {
                (None, confirmed) => confirmed.is_none(),
                (Some(past), confirmed) => {
                    let least = confirmed.unwrap_or(0);
                    is_of(past, least) || is_of(past, least + 1)
                }
            };
            assert!(
                right,
                "after {cut} calls ({:?}): confirmed {confirmed:?}, found {past:?}",
                calls.get(cut)
            );
            let aside = disk
                .names()
                .into_iter()
                .find(|name| name.ends_with(".damaged"));
            assert_eq!(aside, None, "a power cut does not damage it");
            // The session can be continued.
            if let Some(past) = past {
                goes_on(&disk, &past);
            }
        }
    }
    assert!(states > 300, "{states}");
}

/// Turns of several sessions are written together and confirmed before they are on the disk. After a power cut each
/// session has a prefix of its turns that includes all turns on the disk, also if the disk refused some for a while.
#[test]
fn a_power_cut_takes_no_more_than_the_newest_of_relaxed_turns() {
    const NAMES: [&str; 2] = ["a", "b"];
    let files = Arc::new(Memory::default());
    let one = store(files.clone());
    let stored = NAMES.map(|name| {
        let name = Name::new(name).expect("a name");
        let system = Message::new(Role::System, "be brief");
        let made = one.create(USER, &name, vec![system], serde_json::Map::new());
        made.expect("made")
    });
    // All turns are handed over before the first wait.
    let together = |turns: std::ops::Range<usize>| {
        let (done, confirmed) = mpsc::channel();
        for n in turns {
            for stored in &stored {
                let done = done.clone();
                one.append(stored, turn(n), move |result| drop(done.send(result)));
            }
        }
        drop(done);
        // All of them have finished by then.
        let confirmed: Vec<_> = confirmed.iter().collect();
        confirmed.into_iter().collect::<Result<Vec<_>, _>>()
    };
    let relaxed = |relaxed: bool| {
        let durability = [Durability::Turn, Durability::Relaxed][usize::from(relaxed)];
        one.configure(durability, QUOTA);
    };
    let on_disk = |turns: usize| NAMES.map(|name| files.confirmed(name, turns));

    together(0..2).expect("kept");
    on_disk(2);
    relaxed(true);
    together(2..4).expect("written");
    relaxed(false);
    together(4..5).expect("kept");
    on_disk(5);
    relaxed(true);
    together(5..7).expect("written");
    files.does_not_sync(Some(ErrorKind::Other));
    relaxed(false);
    together(7..8).expect_err("what was confirmed is not on the disk");
    files.does_not_sync(None);
    together(7..8).expect("kept");
    on_disk(8);
    drop((one, stored));

    let calls = files.calls();
    for cut in 0..=calls.len() {
        for disk in Memory::after_a_cut(&calls[..cut]) {
            let again = store(disk.clone());
            for name in NAMES {
                let confirmed = calls[..cut].iter().rev().find_map(|call| match call {
                    Call::Confirmed(session, turns) if *session == name => Some(*turns),
                    _ => None,
                });
                let opened = again.open(USER, &Name::new(name).expect("a name"));
                let past = opened.unwrap_or_else(|error| panic!("after {cut} calls: {error}"));
                let right = match (&past, confirmed) {
                    (None, confirmed) => confirmed.is_none(),
                    (Some((_, past)), confirmed) => {
                        (confirmed.unwrap_or(0)..=8).any(|turns| is_of(past, turns))
                    }
                };
                let found = past.map(|(_, past)| past.turns.len());
                assert!(
                    right,
                    "after {cut} calls: confirmed {confirmed:?}, found {found:?}"
                );
            }
            let mut names = disk.names().into_iter();
            let aside = names.find(|name| name.ends_with(".damaged"));
            assert_eq!(aside, None, "a power cut does not damage it");
        }
    }
}

/// Undone turns make the file long until compaction.
#[test]
fn a_power_cut_while_a_file_is_made_shorter_loses_nothing() {
    let files = Arc::new(Memory::default());
    let one = store(files.clone());
    let stored = begin(&one).expect("made");
    let mut happens = vec![turn(0)];
    for _ in 0..16 {
        happens.extend([turn(1), Entry::Rewound { turns: 1 }]);
    }
    happens.extend([turn(1), turn(2)]);
    // The number of turns after each step.
    let mut left = vec![0];
    let mut longest = 0;
    files.confirmed("talk", 0);
    for (at, entry) in happens.into_iter().enumerate() {
        left.push(match &entry {
            Entry::Rewound { turns } => *turns as usize,
            _ => left[at] + 1,
        });
        append(&one, &stored, entry).expect("kept");
        files.confirmed("talk", at + 1);
        longest = longest.max(files.bytes(&path()).expect("there").len());
    }
    let now = files.bytes(&path()).expect("there").len();
    assert!(now < longest / 2, "{now} of {longest} bytes");
    let listed = one.list(USER).expect("read");
    assert_eq!(listed[0].1.bytes, now as u64);
    drop(one);

    let calls = files.calls();
    let renamed = |call: &Call| matches!(call, Call::Rename(..));
    assert_eq!(calls.iter().filter(|call| renamed(call)).count(), 2);
    for cut in 0..=calls.len() {
        let confirmed = calls[..cut].iter().rev().find_map(|call| match call {
            Call::Confirmed(_, at) => Some(*at),
            _ => None,
        });
        let Some(confirmed) = confirmed else {
            continue;
        };
        for disk in Memory::after_a_cut(&calls[..cut]) {
            let past = again(&disk).unwrap_or_else(|error| panic!("after {cut} calls: {error}"));
            let past = past.unwrap_or_else(|| panic!("nothing is left after {cut} calls"));
            let next = left.get(confirmed + 1).copied();
            assert!(
                is_of(&past, left[confirmed]) || next.is_some_and(|next| is_of(&past, next)),
                "after {cut} calls: confirmed {confirmed}, found {past:?}"
            );
            assert!(!disk.names().iter().any(|name| !name.ends_with(".session")));
        }
    }
}

/// The cut bytes are overwritten: another turn is stored and read.
fn goes_on(disk: &Arc<Memory>, past: &Past) {
    let one = store(disk.clone());
    let (stored, _) = one.open(USER, &name()).expect("read").expect("there");
    append(&one, &stored, turn(past.turns.len())).expect("kept");
    let after = again(disk).expect("read").expect("there");
    assert!(is_of(&after, past.turns.len() + 1), "{after:?}");
}

/// A confirmed deletion is final.
#[test]
fn a_power_cut_brings_nothing_back() {
    let files = Arc::new(Memory::default());
    let one = store(files.clone());
    let stored = begin(&one).expect("made");
    append(&one, &stored, turn(0)).expect("kept");
    append(&one, &stored, turn(1)).expect("kept");
    append(&one, &stored, Entry::Rewound { turns: 1 }).expect("kept");
    for disk in Memory::after_a_cut(&files.calls()) {
        assert!(is_of(&again(&disk).expect("read").expect("there"), 1));
    }
    one.delete(USER, &name()).expect("deleted");
    for disk in Memory::after_a_cut(&files.calls()) {
        assert_eq!(again(&disk).expect("read"), None);
    }
}

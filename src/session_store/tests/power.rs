//! Whenever the power goes, what was told to be kept is there afterwards, and nothing else but what followed it.

use std::sync::Arc;

use super::memory::{Call, Memory};
use super::{Entry, again, append, begin, name, store, turn};
use crate::session_store::Past;

/// Whether a past is that of the first so many turns.
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
    files.told(0);
    for n in 0..TURNS {
        append(&one, &stored, turn(n)).expect("kept");
        files.told(n + 1);
    }
    drop(one);
    let calls = files.calls();
    let mut states = 0;
    for cut in 0..=calls.len() {
        let told = calls[..cut].iter().rev().find_map(|call| match call {
            Call::Told(turns) => Some(*turns),
            _ => None,
        });
        for disk in Memory::after_a_cut(&calls[..cut]) {
            states += 1;
            let past = again(&disk).unwrap_or_else(|error| panic!("after {cut} calls: {error}"));
            let right = match (&past, told) {
                (None, told) => told.is_none(),
                (Some(past), told) => {
                    let least = told.unwrap_or(0);
                    is_of(past, least) || is_of(past, least + 1)
                }
            };
            assert!(
                right,
                "after {cut} calls ({:?}): told of {told:?}, found {past:?}",
                calls.get(cut)
            );
            let aside = disk
                .names()
                .into_iter()
                .find(|name| name.ends_with(".damaged"));
            assert_eq!(aside, None, "a power cut is no damage");
            // And it goes on from there.
            if let Some(past) = past {
                goes_on(&disk, &past);
            }
        }
    }
    assert!(states > 300, "{states}");
}

/// What was cut off is overwritten: another turn is kept, and read again.
fn goes_on(disk: &Arc<Memory>, past: &Past) {
    let one = store(disk.clone());
    let (stored, _) = one
        .open(super::USER, &name())
        .expect("read")
        .expect("there");
    append(&one, &stored, turn(past.turns.len())).expect("kept");
    let after = again(disk).expect("read").expect("there");
    assert!(is_of(&after, past.turns.len() + 1), "{after:?}");
}

/// What was deleted is gone for good once that was told.
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
    one.delete(super::USER, &name()).expect("deleted");
    for disk in Memory::after_a_cut(&files.calls()) {
        assert_eq!(again(&disk).expect("read"), None);
    }
}

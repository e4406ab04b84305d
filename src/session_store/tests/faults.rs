//! Disks that are full, read-only or broken: an error with its remedy, what was kept before stays, and it goes on later.

use std::io::ErrorKind;
use std::sync::Arc;

use super::memory::Memory;
use super::{again, append, begin, store, turn};

#[test]
fn what_does_not_fit_the_disk_is_refused_and_nothing_else_is_lost() {
    let files = Arc::new(Memory::default());
    let one = store(files.clone());
    let stored = begin(&one).expect("made");
    append(&one, &stored, turn(0)).expect("kept");
    for room in (0..900).step_by(32) {
        files.has_room(Some(room));
        let refused = append(&one, &stored, turn(1))
            .expect_err("no room")
            .to_string();
        assert!(refused.contains("make room"), "{refused}");
        assert_eq!(again(&files).expect("read").expect("there").turns.len(), 1);
    }
    files.has_room(None);
    append(&one, &stored, turn(1)).expect("there is room again");
    assert_eq!(again(&files).expect("read").expect("there").turns.len(), 2);
}

#[test]
fn a_disk_that_takes_no_writes_is_told_of() {
    let files = Arc::new(Memory::default());
    files.refuses(Some(ErrorKind::ReadOnlyFilesystem));
    let one = store(files.clone());
    let refused = begin(&one)
        .map(drop)
        .expect_err("nothing is written")
        .to_string();
    assert!(refused.contains("sessions.directory"), "{refused}");
    files.refuses(None);
    let stored = begin(&one).expect("made");
    append(&one, &stored, turn(0)).expect("kept");
    files.refuses(Some(ErrorKind::ReadOnlyFilesystem));
    append(&one, &stored, turn(1)).expect_err("nothing is written");
    files.refuses(None);
    append(&one, &stored, turn(1)).expect("kept");
    assert_eq!(again(&files).expect("read").expect("there").turns.len(), 2);
}

#[test]
fn what_could_not_be_synced_does_not_come_back() {
    let files = Arc::new(Memory::default());
    let one = store(files.clone());
    let stored = begin(&one).expect("made");
    append(&one, &stored, turn(0)).expect("kept");
    files.does_not_sync(Some(ErrorKind::Other));
    append(&one, &stored, turn(1)).expect_err("not on the disk");
    append(&one, &stored, turn(1)).expect_err("not on the disk");
    files.does_not_sync(None);
    append(&one, &stored, turn(1)).expect("kept");
    let past = again(&files).expect("read").expect("there");
    assert_eq!(past.turns.len(), 2, "once, not three times");
}

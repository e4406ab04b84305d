//! Disks that are full, read-only or broken: each error has a remedy, stored turns stay, and appending works again
//! later.

use std::io::ErrorKind;
use std::sync::Arc;

use super::memory::Memory;
use super::{QUOTA, USER, again, append, begin, name, path, store, turn};
use crate::session_store::{Durability, Entry, Name};

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

/// Also a file with a torn last entry, which is cut off by the next append.
#[test]
fn what_was_kept_is_read_where_nothing_may_be_written() {
    let files = Arc::new(Memory::default());
    let one = store(files.clone());
    let stored = begin(&one).expect("made");
    append(&one, &stored, turn(0)).expect("kept");
    append(&one, &stored, turn(1)).expect("kept");
    let whole = files.bytes(&path()).expect("there");
    let torn = whole[..whole.len() - 10].to_vec();
    files.put(&path(), torn.clone());
    for kind in [ErrorKind::ReadOnlyFilesystem, ErrorKind::PermissionDenied] {
        files.refuses(Some(kind));
        let one = store(files.clone());
        let (stored, past) = one.open(USER, &name()).expect("read").expect("there");
        assert_eq!(past.turns.len(), 1);
        let refused = [
            one.admit(&stored, 1),
            append(&one, &stored, turn(1)),
            append(&one, &stored, Entry::Rewound { turns: 0 }),
        ];
        for refused in refused {
            let refused = refused.expect_err("nothing is written").to_string();
            assert!(refused.contains("sessions.directory"), "{refused}");
        }
        assert_eq!(files.bytes(&path()).as_ref(), Some(&torn));
        files.refuses(None);
        // The file may have been replaced by then.
        files.put(&path(), whole.clone());
        let changed = append(&one, &stored, turn(1)).expect_err("it was changed");
        assert!(changed.to_string().contains("changed"), "{changed}");
        files.put(&path(), torn.clone());
        one.admit(&stored, 1).expect("it is written again");
        append(&one, &stored, turn(1)).expect("kept");
        assert_eq!(again(&files).expect("read").expect("there").turns.len(), 2);
        files.put(&path(), torn.clone());
    }
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
    let past = again(&files).expect("read").expect("there");
    assert_eq!(past.turns.len(), 1, "nor for who starts anew then");
    append(&one, &stored, turn(1)).expect("kept");
    let past = again(&files).expect("read").expect("there");
    assert_eq!(past.turns.len(), 2, "once, not three times");
}

/// There is room for entries, but not for a second file.
#[test]
fn a_file_that_cannot_be_made_shorter_stays_as_it_is() {
    let files = Arc::new(Memory::default());
    let one = store(files.clone());
    let stored = begin(&one).expect("made");
    append(&one, &stored, turn(0)).expect("kept");
    let length = || files.bytes(&path()).expect("there").len();
    let taken_back = || {
        append(&one, &stored, turn(1)).expect("kept");
        append(&one, &stored, Entry::Rewound { turns: 1 }).expect("kept");
    };
    // The work after an entry has finished before the next entry is appended.
    let settle = || {
        let options = serde_json::Map::new();
        append(&one, &stored, Entry::Options { options }).expect("kept");
    };
    files.makes_none(Some(ErrorKind::StorageFull));
    while length() < 20 << 10 {
        taken_back();
    }
    settle();
    files.makes_none(None);
    assert_eq!(files.names(), ["talk.session"]);
    assert_eq!(again(&files).expect("read").expect("there").turns.len(), 1);
    // Compaction is tried again at twice the length.
    let mut longest = 0;
    while length() >= longest {
        assert!(longest < 1 << 20, "compaction did not shorten it");
        longest = length();
        taken_back();
    }
    assert!(longest > 32 << 10, "{longest}");
    settle();
    assert_eq!(again(&files).expect("read").expect("there").turns.len(), 1);
}

/// The commit thread still has the file when its session is deleted.
#[test]
fn a_file_that_is_made_shorter_does_not_come_back_when_it_was_deleted() {
    let files = Arc::new(Memory::default());
    let one = store(files.clone());
    let stored = begin(&one).expect("made");
    let other = Name::new("other").expect("a name");
    let other = one.create(USER, &other, Vec::new(), serde_json::Map::new());
    let other = other.expect("made");
    one.configure(Durability::Relaxed, QUOTA);
    for _ in 0..20 {
        append(&one, &stored, turn(0)).expect("written");
        append(&one, &stored, Entry::Rewound { turns: 0 }).expect("written");
    }
    assert!(files.bytes(&path()).expect("there").len() > 16 << 10);
    assert!(one.delete(USER, &name()).expect("deleted"));
    // All earlier entries are synced before this one.
    one.configure(Durability::Turn, QUOTA);
    append(&one, &other, turn(0)).expect("kept");
    assert_eq!(files.names(), ["other.session"]);
}

//! Files that something else has changed: each is set aside as it is, and its session begins anew.

use std::sync::Arc;

use super::memory::Memory;
use super::{again, append, begin, name, path, store, turn};
use crate::session_store::{StoreError, Summary};

fn talk() -> Arc<Memory> {
    let files = Arc::new(Memory::default());
    let one = store(files.clone());
    let stored = begin(&one).expect("made");
    append(&one, &stored, turn(0)).expect("kept");
    append(&one, &stored, turn(1)).expect("kept");
    files
}

#[test]
fn a_changed_byte_anywhere_is_found_and_the_file_is_kept() {
    let whole = talk().bytes(&path()).expect("there");
    for at in 0..whole.len() {
        for change in [0x01, 0x80] {
            let files = talk();
            let mut bytes = whole.clone();
            bytes[at] ^= change;
            files.put(&path(), bytes.clone());
            let version = (8..12).contains(&at);
            match again(&files) {
                Ok(None) => {
                    let aside = path().with_file_name("talk.1.damaged");
                    assert_eq!(files.bytes(&aside), Some(bytes), "byte {at}");
                    let one = store(files.clone());
                    let confirmed = Summary {
                        damaged: vec![aside],
                        ..Summary::default()
                    };
                    let listed = one.list(super::USER).expect("read");
                    assert_eq!(listed, [(name(), confirmed)], "byte {at}");
                    begin(&one).expect("it begins anew");
                }
                other => panic!("byte {at} (version: {version}): {other:?}"),
            }
        }
    }
}

#[test]
fn what_was_set_aside_is_listed_until_it_is_deleted() {
    let files = talk();
    for n in 1..=2 {
        let mut bytes = files.bytes(&path()).expect("there");
        bytes[40] ^= 1;
        files.put(&path(), bytes);
        let one = store(files.clone());
        assert!(one.open(super::USER, &name()).expect("read").is_none());
        let damaged = |one: &super::Store| {
            let listed = one.list(super::USER).expect("read");
            let [(_, summary)] = &listed[..] else {
                panic!("{listed:?}");
            };
            summary.damaged.len()
        };
        assert_eq!(damaged(&one), n);
        begin(&one).expect("it begins anew");
        assert_eq!((damaged(&one), damaged(&store(files.clone()))), (n, n));
    }
    let one = store(files.clone());
    assert!(one.delete(super::USER, &name()).expect("deleted"));
    assert_eq!(one.list(super::USER).expect("read"), []);
    assert_eq!(files.names(), Vec::<String>::new());
    assert!(!one.delete(super::USER, &name()).expect("there is none"));
}

#[test]
fn a_sector_that_is_lost_later_is_no_torn_write() {
    let whole = talk().bytes(&path()).expect("there");
    let last = whole.len() - 1024;
    // A later record says that all records but the last were on the disk.
    for sector in (0..last).step_by(512).filter(|at| at + 512 <= last) {
        let files = talk();
        let mut bytes = whole.clone();
        bytes[sector..sector + 512].fill(0);
        files.put(&path(), bytes);
        assert_eq!(again(&files).expect("read"), None, "sector at {sector}");
        assert!(files.names().contains(&"talk.1.damaged".to_owned()));
    }
}

#[test]
fn a_file_of_another_version_or_another_owner_is_left_as_it_is() {
    let files = talk();
    let mut bytes = files.bytes(&path()).expect("there");
    bytes[8] = 2;
    let sum = crc32fast::hash(&bytes[..28]).to_le_bytes();
    bytes[28..32].copy_from_slice(&sum);
    files.put(&path(), bytes.clone());
    let refused = again(&files).expect_err("not read");
    assert!(
        matches!(refused, StoreError::Version { found: 2, .. }),
        "{refused}"
    );
    let one = store(files.clone());
    let listed = one.list(super::USER).expect("read");
    assert!(listed[0].1.error.is_some(), "{listed:?}");
    assert_eq!(files.bytes(&path()), Some(bytes));
    assert!(
        one.delete(super::USER, &name())
            .expect("it can be given up")
    );

    let files = talk();
    files.belongs_to(1234);
    let refused = again(&files).expect_err("not read");
    assert!(
        matches!(refused, StoreError::Owner { owner: 1234, .. }),
        "{refused}"
    );
    files.belongs_to(0);
    assert_eq!(again(&files).expect("read").expect("there").turns.len(), 2);
}

/// A user who can move files could otherwise show one user's conversation to another.
#[test]
fn a_file_of_another_user_or_name_is_not_read() {
    let files = talk();
    let bytes = files.bytes(&path()).expect("there");
    let one = store(files.clone());
    let other = super::Name::new("other").expect("a name");
    one.create(super::USER + 1, &other, Vec::new(), serde_json::Map::new())
        .expect("made");
    let theirs = path().to_string_lossy().replace("1001/talk", "1002/other");
    files.put(theirs.as_ref(), bytes);
    let opened = store(files).open(super::USER + 1, &other).expect("read");
    assert!(opened.is_none());
}

/// The file may be from a time with a larger limit.
#[test]
fn a_file_of_more_bytes_than_may_be_is_left_as_it_is() {
    let files = talk();
    let mut bytes = files.bytes(&path()).expect("there");
    let most = 2 * super::QUOTA.bytes + (16 << 20);
    bytes.resize(usize::try_from(most).expect("it fits") + 1, b' ');
    files.put(&path(), bytes);
    let refused = again(&files).expect_err("not read");
    assert!(matches!(refused, StoreError::TooLong { .. }), "{refused}");
    assert!(
        refused.to_string().contains("sessions.mib_per_user"),
        "{refused}"
    );
    let one = store(files.clone());
    let listed = one.list(super::USER).expect("read");
    assert!(listed[0].1.error.is_some(), "{listed:?}");
    assert!(
        one.delete(super::USER, &name())
            .expect("it can be given up")
    );
}

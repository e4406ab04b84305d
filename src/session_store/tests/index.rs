//! A start reads only the files that changed since the index was written, and all files if the index is unusable.

use std::path::PathBuf;
use std::sync::Arc;

use super::memory::Memory;
use super::{ROOT, USER, append, path, store, turn};
use crate::model::Message;
use crate::model::Role;
use crate::session_store::{Durability, Entry, Name, Quota, Store};

const MANY: usize = 1024;
const QUOTA: Quota = Quota {
    sessions: MANY,
    bytes: 1 << 30,
};

fn many(files: &Arc<Memory>) -> Store {
    let one = store(files.clone());
    one.configure(Durability::Turn, QUOTA);
    for n in 0..MANY {
        let name = Name::new(&format!("talk{n}")).expect("a name");
        let system = Message::new(Role::System, "be brief ".repeat(100));
        let stored = one.create(USER, &name, vec![system], serde_json::Map::new());
        append(&one, &stored.expect("made"), turn(0)).expect("kept");
    }
    one
}

fn listed(files: &Arc<Memory>) -> (Vec<(Name, u32)>, usize) {
    files.reads();
    let listed = store(files.clone()).list(USER).expect("read");
    let listed = listed.into_iter().map(|(name, one)| (name, one.turns));
    (listed.collect(), files.reads().0)
}

fn index() -> PathBuf {
    PathBuf::from(ROOT).join(USER.to_string()).join("index")
}

#[test]
fn a_start_reads_what_has_changed_and_nothing_else() {
    let files = Arc::new(Memory::default());
    // The store is killed: some of the last sessions are not in the index.
    let one = many(&files);
    let (killed, read) = listed(&files);
    assert_eq!(killed.len(), MANY);
    assert!(killed.iter().all(|(_, turns)| *turns == 1));
    assert!(read <= 1 + MANY / 8, "{read} files after a kill");
    one.finish();
    drop(one);
    files.reads();
    let (all, read) = listed(&files);
    assert_eq!((all, read), (killed.clone(), 1), "the index alone");
    let bytes = files.bytes(&index()).expect("there").len();
    assert!(bytes < 128 * MANY, "{bytes}");

    // One session goes on, one is changed by something else, and one is new.
    let one = store(files.clone());
    one.configure(Durability::Turn, QUOTA);
    let of = |n: usize| Name::new(&format!("talk{n}")).expect("a name");
    let file = |n: usize| path().with_file_name(format!("talk{n}.session"));
    let (stored, _) = one.open(USER, &of(1)).expect("read").expect("there");
    append(&one, &stored, turn(1)).expect("kept");
    append(&one, &stored, Entry::Rewound { turns: 1 }).expect("kept");
    append(&one, &stored, turn(1)).expect("kept");
    drop((one, stored));
    let mut damaged = files.bytes(&file(2)).expect("there");
    damaged[50] ^= 1;
    files.put(&file(2), damaged);
    let (all, read) = listed(&files);
    assert_eq!(read, 3);
    assert_eq!(
        all.iter().find(|(name, _)| *name == of(1)),
        Some(&(of(1), 2))
    );
    let aside = store(files.clone()).list(USER).expect("read");
    let aside = aside
        .into_iter()
        .find(|(name, _)| *name == of(2))
        .expect("confirmed");
    assert_eq!(aside.1.damaged.len(), 1);

    // A damaged or foreign index is ignored.
    for part in 0..3 {
        let mut changed = files.bytes(&index()).expect("there");
        let at = part * (changed.len() - 1) / 2;
        changed[at] ^= 1;
        files.put(&index(), changed);
        let (all, read) = listed(&files);
        assert_eq!(all.len(), MANY);
        assert!(read >= MANY - 1, "{read} files");
    }
}

#[test]
fn of_a_few_sessions_there_is_no_index() {
    let files = Arc::new(Memory::default());
    let one = store(files.clone());
    super::begin(&one).expect("made");
    one.finish();
    assert_eq!(files.names(), ["talk.session"]);
}

/// The clock was set back.
#[test]
fn no_session_is_used_before_it_begins() {
    let files = Arc::new(Memory::default());
    let one = store(files.clone());
    let stored = super::begin(&one).expect("made");
    append(&one, &stored, turn(0)).expect("kept");
    for one in [one, store(files)] {
        let listed = one.list(USER).expect("read");
        let (_, summary) = &listed[0];
        assert!(
            summary.began > 0 && summary.used >= summary.began,
            "{summary:?}"
        );
    }
}

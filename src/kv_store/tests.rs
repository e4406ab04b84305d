//! Tests of the store: files, daily limits, deleted sessions, failing disks.

mod faulty;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use faulty::Faulty;

use super::{Arrived, Cost, Counts, Key, Load, Place, Rules, Save, Store};
use crate::files::{Disk, Files};
use crate::kv::{self, Family, PAGE, Reuse};
use crate::session_store::Name;

const PAGE_BYTES: usize = 1 << 14;
const WAIT: Duration = Duration::from_secs(60);
/// More than a file of one page, whose header takes less.
const FILE: u64 = 3 * PAGE_BYTES as u64 / 2;

fn store(root: &Path, bytes: u64, writes: Option<u64>) -> Store {
    store_on(Arc::new(Disk), root, bytes, writes)
}

fn store_on(files: Arc<dyn Files>, root: &Path, bytes: u64, writes: Option<u64>) -> Store {
    let rules = Rules {
        bytes,
        writes,
        rest: Duration::ZERO,
        stop: Duration::ZERO,
        measured: false,
    };
    Store::open(files, root.to_owned(), rules).expect("a thread")
}

fn place(name: &str) -> Place {
    Place {
        user: 1,
        name: Name::new(name).expect("a name"),
    }
}

fn key() -> Key {
    Key::default().with("model", "a")
}

/// Saves one page of a session. Returns whether it may be written.
fn save(store: &Store, name: &str, used: Instant) -> bool {
    save_of(store, name, used, 1)
}

/// Saves a sequence of several pages. Returns whether it may be written.
fn save_of(store: &Store, name: &str, used: Instant, pages: usize) -> bool {
    fs::create_dir_all(place(name).folder(&store.shared.root)).expect("it is made");
    let pages = store.save(Save {
        place: place(name),
        key: key(),
        tokens: vec![(7, Family::Prompt); pages * PAGE],
        places: kv::Layout::plain().missing(0, pages * PAGE).collect(),
        page_bytes: PAGE_BYTES,
        used,
        wake: Arc::new(|| {}),
    });
    let sent = pages.is_some_and(|pages| pages.send(vec![1; PAGE_BYTES]).is_ok());
    store.flush(WAIT);
    sent
}

/// Loads a session, and returns the number of restored pages.
fn load(store: &Store, name: &str) -> usize {
    let arrived = store.load(Load {
        place: place(name),
        key: key(),
        tokens: vec![7; PAGE],
        said: Vec::new(),
        reuse: Reuse::Exact,
        page_bytes: PAGE_BYTES,
        layout: kv::Layout::plain(),
        held: 0,
        again: Cost::default(),
        wake: Arc::new(|| {}),
    });
    arrived
        .iter()
        .filter(|one| matches!(one, Arrived::Page(_)))
        .count()
}

#[test]
fn the_least_recently_used_file_is_evicted() {
    let root = tempfile::tempdir().unwrap();
    let before = store(root.path(), 2 * FILE, None);
    assert!(save(&before, "a", Instant::now()) && save(&before, "b", Instant::now()));
    assert_eq!(load(&before, "a"), 1, "it is the younger one now");
    before.flush(WAIT);
    drop(before);
    // The rest of a write that a power cut interrupted.
    fs::write(place("c").unfinished(root.path()), "half").unwrap();
    let store = store(root.path(), 2 * FILE, None);
    assert!(!place("c").unfinished(root.path()).exists());
    assert!(save(&store, "c", Instant::now()));
    let has = ["a", "b", "c"].map(|name| store.has(&place(name)));
    assert_eq!(has, [true, false, true]);
    assert!(!place("b").path(root.path()).exists());
}

#[test]
fn the_daily_limit_survives_a_restart() {
    let root = tempfile::tempdir().unwrap();
    assert!(save(
        &store(root.path(), 9 * FILE, Some(FILE)),
        "a",
        Instant::now()
    ));
    let again = store(root.path(), 9 * FILE, Some(FILE));
    assert!(!save(&again, "b", Instant::now()), "more than that day has");
    assert!(save(
        &store(root.path(), 9 * FILE, None),
        "b",
        Instant::now()
    ));
    assert!(!save(
        &store(root.path(), 9 * FILE, Some(0)),
        "c",
        Instant::now()
    ));
}

/// An unfinished write counts.
#[test]
fn unfinished_writes_count_for_the_day() {
    let root = tempfile::tempdir().unwrap();
    let store = store(root.path(), 9 * FILE, Some(2 * FILE));
    // The second page never arrives.
    assert!(save_of(&store, "a", Instant::now(), 2));
    assert!(!store.has(&place("a")));
    assert!(save(&store, "b", Instant::now()));
    assert!(!save(&store, "c", Instant::now()), "more than that day has");
    drop(store);

    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(place("a").folder(root.path())).unwrap();
    fs::write(place("a").unfinished(root.path()), [0; PAGE_BYTES]).unwrap();
    let store = super::tests::store(root.path(), 9 * FILE, Some(FILE));
    assert!(!save(&store, "a", Instant::now()), "the daemon was killed");
}

#[test]
fn pages_of_a_deleted_session_are_not_stored() {
    let root = tempfile::tempdir().unwrap();
    let store = store(root.path(), 9 * FILE, None);
    let before = Instant::now();
    assert!(save(&store, "a", before));
    store.delete(&place("a"));
    assert!(save(&store, "a", before), "the session was not deleted yet");
    assert!(!store.has(&place("a")));
    assert_eq!(
        fs::read_dir(place("a").folder(root.path()))
            .unwrap()
            .count(),
        0
    );
    assert!(
        save(&store, "a", Instant::now()),
        "another session of that name"
    );
    assert_eq!(load(&store, "a"), 1);
    store.flush(WAIT);
    let Counts {
        saved,
        restored,
        refused,
        read,
        ..
    } = store.counts();
    assert_eq!((saved, restored, refused), (2, 1, 0));
    assert_eq!(read, PAGE_BYTES as u64);
}

/// A failure at any point of a write leaves the old file usable, and no other.
#[test]
fn a_full_disk_keeps_the_old_files() {
    let root = tempfile::tempdir().unwrap();
    let files = Faulty::new();
    let store = store_on(Arc::new(files.clone()), root.path(), 9 * FILE, None);
    assert!(save(&store, "a", Instant::now()));
    // The failure is before the page, before the header, or in it.
    for room in [0, PAGE_BYTES, PAGE_BYTES + 4095] {
        files.has_room(i64::try_from(room).unwrap());
        save(&store, "a", Instant::now());
        save(&store, "b", Instant::now());
        let left = fs::read_dir(place("a").folder(root.path())).unwrap();
        let left: Vec<_> = left.map(|file| file.unwrap().file_name()).collect();
        assert_eq!(left, ["a.pages"], "{room} bytes");
        assert_eq!(load(&store, "a"), 1, "{room} bytes");
        assert!(!store.has(&place("b")));
    }
    store.flush(WAIT);
    assert_eq!((store.counts().saved, store.counts().refused), (1, 0));
    files.has_room(i64::MAX);
    assert!(save(&store, "b", Instant::now()), "there is room again");
    assert_eq!(load(&store, "b"), 1);
}

/// The owner of a file can change it.
#[test]
fn a_file_of_another_user_is_not_used() {
    let root = tempfile::tempdir().unwrap();
    let files = Faulty::new();
    let store = store_on(Arc::new(files.clone()), root.path(), 9 * FILE, None);
    assert!(save(&store, "a", Instant::now()));
    files.set_other_user(true);
    assert_eq!(load(&store, "a"), 0);
    store.flush(WAIT);
    assert_eq!(store.counts().refused, 1);
    files.set_other_user(false);
    assert!(!place("a").path(root.path()).exists(), "nor later");
    assert!(save(&store, "a", Instant::now()), "it is written anew");
    assert_eq!(load(&store, "a"), 1);
}

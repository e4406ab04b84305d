//! Page files that are damaged or belong to something else: none is used, and the answer is the same.

use std::fs;

use ganglion::kv::PAGE;

use super::model;
use super::sequences::{self, AT_ONCE, Answer, Cold, Place, Said};
use crate::support::tiny_gguf;

/// The change of a file and of the model.
type Damage = (&'static str, fn(&Place));

fn change(place: &Place, change: impl FnOnce(&mut Vec<u8>)) {
    let path = place.file("pages");
    let mut bytes = fs::read(&path).expect("it was written");
    change(&mut bytes);
    fs::write(path, bytes).expect("it is changed");
}

fn flip(place: &Place, at: impl FnOnce(&[u8]) -> usize) {
    change(place, |bytes| {
        let at = at(bytes);
        bytes[at] ^= 4;
    });
}

fn number(bytes: &[u8], at: usize) -> usize {
    let four = bytes[at..at + 4].try_into().expect("four");
    u32::from_le_bytes(four) as usize
}

/// The offset of its tokens.
fn tokens(bytes: &[u8]) -> usize {
    512 + number(bytes, 12)
}

fn seal(bytes: &mut [u8]) {
    let sum = crc32fast::hash(&bytes[..508]);
    bytes[508..512].copy_from_slice(&sum.to_le_bytes());
}

const DAMAGES: &[Damage] = &[
    ("the mark of files", |place| flip(place, |_| 0)),
    ("the version", |place| flip(place, |_| 8)),
    ("what the head leaves empty", |place| flip(place, |_| 300)),
    ("the checksum of the head", |place| flip(place, |_| 509)),
    ("the key", |place| flip(place, |_| 520)),
    ("the tokens", |place| flip(place, tokens)),
    ("the checksums of pages", |place| {
        flip(place, |bytes| tokens(bytes) + 4 * number(bytes, 16));
    }),
    ("what comes before the pages", |place| flip(place, |_| 4095)),
    ("the first page", |place| flip(place, |_| 4096)),
    ("the last page", |place| {
        flip(place, |bytes| bytes.len() - 1);
    }),
    ("its end is missing", |place| {
        change(place, |bytes| bytes.truncate(bytes.len() - 1));
    }),
    ("something follows", |place| {
        change(place, |bytes| bytes.push(0));
    }),
    ("all is missing", |place| change(place, Vec::clear)),
    ("another version of the format", |place| {
        change(place, |bytes| {
            bytes[8] += 1;
            seal(bytes);
        });
    }),
    ("another model", |place| {
        let other = tiny_gguf::speaking("other", 0).file();
        fs::write(&place.model.path, other).expect("it is written");
    }),
];

/// Returns the answer of an engine that has only the journal and the present model.
async fn cold(place: &Place, said: &Said) -> Answer {
    let cold = Cold::start(&place.model).await;
    let answer = cold.answer(place, said).await;
    cold.stop().await;
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_or_foreign_pages_are_prefilled_again() {
    for (what, damage) in DAMAGES {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place::new(&model(folder.path()));
        let random = &mut fastrand::Rng::with_seed(7);
        let mut daemon = place.start(AT_ONCE).await;
        let session = daemon.open().await;
        for _ in 0..2 {
            daemon
                .say(session, &Said::some(random, PAGE / 2..PAGE))
                .await;
        }
        daemon.stop().await;

        damage(&place);
        let said = Said::some(random, 1..9);
        let whole = cold(&place, &said).await;
        let mut daemon = place.start(AT_ONCE).await;
        let session = daemon.open().await;
        let answer = daemon.say(session, &said).await;
        assert_eq!(answer.text, whole.text, "{what}");
        assert_eq!(answer.logits, whole.logits, "{what}");
        assert_eq!(daemon.pages.counts().refused, 1, "{what}");
        // Pages before the damage are intact.
        let last = *what == "the last page";
        assert_eq!(
            answer.usage.restored > 0,
            last,
            "{what}: {:?}",
            answer.usage
        );
        daemon.stop().await;
        assert!(place.file("pages").exists(), "it is written anew");
    }
}

/// On a full disk the session loses nothing, and its answer is the same.
#[tokio::test(flavor = "multi_thread")]
async fn pages_that_cannot_be_written_are_prefilled_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::new(&model(folder.path()));
    let random = &mut fastrand::Rng::with_seed(9);
    let mut daemon = place.start(AT_ONCE).await;
    let session = daemon.open().await;
    // No file can have this name now.
    fs::create_dir(place.file("pages-new")).expect("it is made");
    for _ in 0..2 {
        daemon
            .say(session, &Said::some(random, PAGE / 2..PAGE))
            .await;
    }
    daemon.stop().await;
    assert_eq!(daemon.pages.counts().saved, 0);

    let said = Said::some(random, 1..9);
    let whole = cold(&place, &said).await;
    let mut daemon = place.start(AT_ONCE).await;
    let session = daemon.open().await;
    let answer = daemon.say(session, &said).await;
    assert_eq!((answer.text, answer.logits), (whole.text, whole.logits));
    assert_eq!(
        (answer.usage.restored, daemon.pages.counts().refused),
        (0, 0)
    );
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_deleted_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::new(&model(folder.path()));
    let random = &mut fastrand::Rng::with_seed(8);
    let mut daemon = place.start(AT_ONCE).await;
    let session = daemon.open().await;
    let first = Said::some(random, PAGE / 2..PAGE);
    daemon.say(session, &first).await;
    daemon.has(&sequences::kept()).await;
    assert!(place.file("pages").exists());
    // While the later pages are being written.
    let said = Said::some(random, 9..10);
    daemon.say(session, &said).await;
    // Also from memory.
    let before = daemon
        .handle
        .branch(session, sequences::client(sequences::USER));
    daemon
        .handle
        .close_session(before.await.expect("there is room"));
    daemon.delete(session).await;
    // Nor from memory.
    let session = daemon.open().await;
    let usage = daemon.say(session, &first).await.usage;
    assert_eq!((usage.cached_tokens, usage.restored), (0, 0));
    daemon.delete(session).await;
    daemon.stop().await;
    for end in ["session", "pages", "pages-new"] {
        assert!(!place.file(end).exists(), "{end}");
    }
}

//! Session files through power cuts, full disks and damage.

mod damage;
mod faults;
mod index;
mod memory;
mod power;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;

use memory::{Memory, Shared};

use super::record;
use super::{Durability, Entry, Name, Past, Quota, Store, StoreError, Stored, Tokens, Turn};
use crate::model::Message;
use crate::model::Role;

const ROOT: &str = "/state/sessions";
const USER: u32 = 1001;
const QUOTA: Quota = Quota {
    sessions: 3,
    bytes: 1 << 20,
};

fn store(files: Arc<Memory>) -> Store {
    let files = Arc::new(Shared(files));
    Store::new(files, PathBuf::from(ROOT), Durability::Turn, QUOTA).expect("a thread")
}

fn name() -> Name {
    Name::new("talk").expect("a name")
}

fn path() -> PathBuf {
    PathBuf::from(ROOT)
        .join(USER.to_string())
        .join("talk.session")
}

fn begin(store: &Store) -> Result<Stored, StoreError> {
    let system = Message::new(Role::System, "be brief");
    store.create(USER, &name(), vec![system], serde_json::Map::new())
}

/// The n-th turn of a conversation, counted from 0, longer than a sector.
fn turn(n: usize) -> Entry {
    let n = u32::try_from(n).expect("few");
    Entry::Turn(Box::new(Turn {
        at: u64::from(n),
        dropped: 0,
        messages: vec![Message::new(
            Role::User,
            format!("question {n} {}", "x".repeat(700)),
        )],
        answer: Message::new(Role::Assistant, format!("answer {n}")),
        partial: false,
        thinking: None,
        tools: None,
        tokens: Tokens {
            kept: if n == 0 { 0 } else { 5 },
            prompt: vec![n, 1, 2],
            answer: Some(vec![7, 8]),
            said: 2,
        },
    }))
}

/// Appends an entry and waits for the result.
fn append(store: &Store, stored: &Stored, entry: Entry) -> Result<(), StoreError> {
    let (done, confirmed) = mpsc::channel();
    store.append(stored, entry, move |result| drop(done.send(result)));
    confirmed.recv().expect("a result")
}

/// Reads the file after a restart.
fn again(files: &Arc<Memory>) -> Result<Option<Past>, StoreError> {
    let opened = store(files.clone()).open(USER, &name())?;
    Ok(opened.map(|(_, past)| past))
}

#[test]
fn what_was_said_is_there_again_with_who_made_each_token() {
    let files = Arc::new(Memory::default());
    let one = store(files.clone());
    let stored = begin(&one).expect("made");
    append(&one, &stored, turn(0)).expect("kept");
    append(&one, &stored, turn(1)).expect("kept");
    append(&one, &stored, Entry::Rewound { turns: 1 }).expect("kept");
    let tool = vec![Message::new(Role::Tool, "12 degrees")];
    append(
        &one,
        &stored,
        Entry::Appended {
            messages: tool.clone(),
        },
    )
    .expect("kept");
    let past = again(&files).expect("read").expect("there");
    assert_eq!(past.messages[0].content, "be brief");
    assert_eq!((past.turns.len(), past.appended.clone()), (1, tool));
    // The next prompt shares four tokens, of which the last was decoded.
    let Entry::Turn(mut next) = turn(2) else {
        panic!("a turn");
    };
    next.tokens.kept = 4;
    append(&one, &stored, Entry::Turn(next)).expect("kept");
    let past = again(&files).expect("read").expect("there");
    let context = past.trail.context();
    assert_eq!(context.tokens, [0, 1, 2, 7, 2, 1, 2, 7, 8]);
    assert_eq!(context.decoded, [3..4, 7..9]);
    assert_eq!(
        past.turns[1].messages.len(),
        2,
        "what was appended is part of it"
    );
    let listed = store(files.clone()).list(USER).expect("read");
    assert_eq!(one.list(USER).expect("read"), listed);
    assert_eq!((listed.len(), listed[0].1.turns), (1, 2));
    assert_eq!(store(files).list(USER + 1).expect("read"), []);
}

/// Robots have files of this version. A change of the layout needs a new version number, and must still read this one.
#[test]
fn a_file_is_written_as_version_1_is() {
    let files = Arc::new(Memory::default());
    let one = store(files.clone());
    let stored = begin(&one).expect("made");
    append(&one, &stored, turn(0)).expect("kept");
    let call = vec![Message {
        call_id: Some("c1".into()),
        ..Message::new(Role::Tool, "12 degrees")
    }];
    append(&one, &stored, Entry::Appended { messages: call }).expect("kept");
    append(&one, &stored, Entry::Rewound { turns: 1 }).expect("kept");
    let bytes = files.bytes(&path()).expect("there");
    assert_eq!(&bytes[..12], b"GNGLsess\x01\0\0\0");
    let read = record::read(&bytes).expect("whole");
    let texts = read.texts.into_iter();
    let texts: Vec<_> = texts
        .map(|text| String::from_utf8_lossy(&bytes[text]).into_owned())
        .collect();
    let opened = r#"{"opened":{"user":1001,"name":"talk","at":"#;
    let begun = r#","messages":[{"role":"system","content":"be brief"}],"options":{}}}"#;
    assert!(
        texts[0].starts_with(opened) && texts[0].ends_with(begun),
        "{}",
        texts[0]
    );
    let question = format!("question 0 {}", "x".repeat(700));
    let messages = format!(r#"[{{"role":"user","content":"{question}"}}]"#);
    let answer = r#"{"role":"assistant","content":"answer 0"}"#;
    let tokens = r#"{"kept":0,"prompt":[0,1,2],"answer":[7,8],"said":2}"#;
    let turn = format!(
        r#"{{"turn":{{"at":0,"messages":{messages},"answer":{answer},"tokens":{tokens}}}}}"#
    );
    assert_eq!(texts[1], turn);
    assert_eq!(
        texts[2..],
        [
            r#"{"appended":{"messages":[{"role":"tool","content":"12 degrees","call_id":"c1"}]}}"#,
            r#"{"rewound":{"turns":1}}"#
        ]
    );
}

#[test]
fn who_has_as_much_as_one_may_have_is_told_what_helps() {
    let files = Arc::new(Memory::default());
    let one = store(files);
    let make = |name: &str, text: &str| {
        let name = Name::new(name).expect("a name");
        let messages = vec![Message::new(Role::System, text)];
        one.create(USER, &name, messages, serde_json::Map::new())
    };
    let long = "x".repeat((1 << 20) + 1);
    let refused = make("a", &long)
        .map(drop)
        .expect_err("too long")
        .to_string();
    assert!(refused.contains("sessions.mib_per_user"), "{refused}");
    let options = serde_json::Map::from_iter([("tools".to_owned(), long.into())]);
    let refused = one.create(USER, &name(), Vec::new(), options);
    let refused = refused.map(drop).expect_err("too long").to_string();
    assert!(refused.contains("sessions.mib_per_user"), "{refused}");
    for name in ["a", "b", "c"] {
        make(name, "").expect("made");
    }
    let refused = make("d", "").map(drop).expect_err("too many").to_string();
    assert!(refused.contains("sessions.per_user"), "{refused}");
    assert!(
        one.delete(USER, &Name::new("a").expect("a name"))
            .expect("deleted")
    );
    let stored = make("d", "").expect("there is room again");
    assert!(one.admit(&stored, 1 << 20).is_err());
    assert!(one.admit(&stored, 1000).is_ok());
}

#[test]
fn a_name_is_no_path() {
    for name in [
        "",
        ".",
        "..",
        ".x",
        "a/b",
        "a b",
        "ä",
        "a\0",
        &"x".repeat(65),
    ] {
        assert!(Name::new(name).is_err(), "{name:?}");
    }
}

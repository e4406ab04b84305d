//! A user's storage quota applies to every kind of entry.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use ganglion::engine::{Client, Handle, Limits, Name, Opened, Opening, Refusal, channel};
use ganglion::files::Disk;
use ganglion::session_store::{Durability, Quota, Store};

use crate::support::limits::limits;

const LIMITS: Limits = limits(4, Duration::from_millis(1));

async fn open(engine: &Handle, options: &str) -> Result<Opened, Refusal> {
    let client = Client {
        name: ":1.1".into(),
        user: 1,
    };
    engine
        .open_named(Opening {
            client,
            name: Name::new("talk").expect("a name"),
            persistent: None,
            take: true,
            messages: Vec::new(),
            options: Map::from_iter([("system".to_owned(), Value::from(options))]),
        })
        .await
}

/// Repeated options are entries like others.
#[tokio::test]
async fn options_count_like_messages() {
    let folder = tempfile::tempdir().expect("a folder");
    let quota = Quota {
        sessions: 4,
        bytes: 1 << 14,
    };
    let root = folder.path().join("sessions");
    let store = Store::new(Arc::new(Disk), root, Durability::Relaxed, quota);
    let (engine, _inbox) = channel(LIMITS);
    engine.set_store(Arc::new(store.expect("a thread")));
    let mut refused = None;
    for n in 0..10 {
        let options = format!("{n}").repeat(4000);
        refused = refused.or(open(&engine, &options).await.err());
    }
    let key = match refused {
        Some(Refusal::Quota { key, .. }) => key,
        other => panic!("{other:?}"),
    };
    assert_eq!(key, "sessions.mib_per_user");
    let kept = engine.list_sessions(1).await.expect("read");
    let bytes: u64 = kept.values().map(|one| one.bytes).sum();
    assert!(bytes <= quota.bytes + 512, "{bytes}");
}

//! A named session changes its holder completely or not at all: a refused take leaves it with its holder.

use std::sync::Arc;

use ganglion::bus::proxy::{Fields, SessionProxy};
use ganglion::bus::{Error, PATH};
use ganglion::engine::FinishReason;
use ganglion::files::Disk;
use ganglion::front::Config;
use ganglion::session_store::{Durability, Quota, Store};
use zbus::{DBusError as _, Variant, fdo};

use super::fields;
use super::owners::below;
use crate::support::daemon::{Client, Daemon, LIMITS, until};
use crate::support::stream::Reader;
use crate::tools::TOOLS;

/// Each answer takes longer than all refused takes during it.
const SCRIPT: &str = "tokens=40,delay=10ms";

fn taking<const N: usize>(more: [(&'static str, Variant<'static>); N]) -> Fields<'static> {
    let mut options = fields(more);
    options.insert("name", "talk".into());
    options.insert("take", true.into());
    options
}

async fn daemon(folder: &tempfile::TempDir) -> Daemon {
    let daemon = Daemon::start(SCRIPT).await;
    let quota = Quota {
        sessions: 4,
        bytes: 1 << 16,
    };
    let root = folder.path().join("sessions");
    let store = Store::new(Arc::new(Disk), root, Durability::Relaxed, quota);
    daemon.engine.set_store(Arc::new(store.expect("a thread")));
    daemon
}

async fn open(client: &Client, options: Fields<'_>) -> Result<SessionProxy<'static>, Error> {
    let path = client.manager.open_session(options).await?;
    Ok(client.session(path).await)
}

async fn objects(client: &Client) -> usize {
    below(client, &format!("{PATH}/session")).await.len()
}

/// After each refusal the holder's answer runs to its end, the session is still the holder's, no other connection can
/// delete it, and the next owner gets it.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_take_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = daemon(&folder).await;
    let (holder, thief) = (daemon.client().await, daemon.client().await);
    let begin = fields([
        ("name", "talk".into()),
        ("system", "be brief".into()),
        ("max_tokens", 40u32.into()),
    ]);
    let session = open(&holder, begin).await.unwrap();
    let lower = Config {
        max_tokens_limit: 39,
        ..Config::default()
    };
    let long = "x".repeat(1 << 15);
    let tool = format!(
        r#"[{{"type":"function","function":{{"name":"a","description":"{long}{long}","parameters":{{"type":"object"}}}}}}]"#
    );
    let refusals: [(&str, Fields<'static>, Config); 8] = [
        (
            "InvalidOption",
            taking([("persistent", false.into())]),
            Config::default(),
        ),
        (
            "InvalidOption",
            taking([("system", "be long".into())]),
            Config::default(),
        ),
        (
            "InvalidOption",
            taking([("no_such_option", 1u32.into())]),
            Config::default(),
        ),
        (
            "InvalidOption",
            taking([("max_tokens", 1_000_000u32.into())]),
            Config::default(),
        ),
        (
            "NotSupported",
            taking([("tools", TOOLS.into())]),
            Config::default(),
        ),
        (
            "InvalidMessages",
            taking([("system", " ".repeat(2 << 20).into())]),
            Config::default(),
        ),
        // The session's earlier options exceed the present limit.
        ("InvalidOption", taking([]), lower),
        // A script calls no tools.
        (
            "NotSupported",
            taking([("tools", tool.into())]),
            Config::default(),
        ),
    ];
    for (error, options, config) in refusals {
        let (_, stream) = session
            .send("go", fields([]))
            .await
            .expect("it is the holder's");
        let mut reader = Reader::new(stream);
        reader.next().await.expect("it has begun");
        daemon.configure(config);
        let shown = format!("{:?}", options.keys());
        let refused = open(&thief, options).await.expect_err("it is refused");
        daemon.configure(Config::default());
        let name = refused.name().to_string();
        assert!(name.ends_with(error), "{shown}: {refused}");
        let deleted = thief.manager.delete_session("talk").await;
        assert!(
            matches!(deleted, Err(Error::Busy(_))),
            "{shown}: {deleted:?}"
        );
        let without = fields([("name", "talk".into())]);
        let held = open(&thief, without).await;
        assert!(matches!(held, Err(Error::Busy(_))), "{shown}");
        assert_eq!(
            (objects(&holder).await, objects(&thief).await),
            (1, 0),
            "{shown}"
        );
        let rest = reader.answer().await;
        assert_eq!(rest.reason, FinishReason::Stop, "{shown}: {rest:?}");
    }
    assert_eq!(session.turns().await.unwrap(), 8);

    // The user's limit refuses no take: the session counts once, before and after it.
    daemon.engine.set_limits(ganglion::engine::Limits {
        sessions: 0,
        ..LIMITS
    });
    let taken = open(&thief, taking([])).await.expect("it is taken");
    assert_eq!((objects(&holder).await, objects(&thief).await), (0, 1));
    assert_eq!(taken.turns().await.unwrap(), 8);
    taken.close().await.unwrap();
    daemon.engine.set_limits(LIMITS);
    let again = open(&holder, fields([("name", "talk".into())])).await;
    again.expect("it can still be taken").close().await.unwrap();
    holder.manager.delete_session("talk").await.unwrap();
}

/// New options that would exceed the quota are refused before the session changes hands.
#[tokio::test(flavor = "multi_thread")]
async fn a_take_without_room_on_the_disk_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = daemon(&folder).await;
    let (holder, thief) = (daemon.client().await, daemon.client().await);
    let session = open(&holder, fields([("name", "talk".into())]))
        .await
        .unwrap();
    let (_, stream) = session
        .send("go", fields([("max_tokens", 40u32.into())]))
        .await
        .unwrap();
    let mut reader = Reader::new(stream);
    reader.next().await.expect("it has begun");
    daemon.engine.keep_sessions(
        Durability::Relaxed,
        Quota {
            sessions: 4,
            bytes: 8,
        },
    );
    let refused = open(&thief, taking([("max_tokens", 39u32.into())])).await;
    assert!(
        matches!(refused, Err(Error::QuotaExceeded(_))),
        "{refused:?}"
    );
    assert_eq!(reader.answer().await.reason, FinishReason::Stop);
    assert_eq!(session.turns().await.unwrap(), 1);
    let deleted = thief.manager.delete_session("talk").await;
    assert!(matches!(deleted, Err(Error::Busy(_))), "{deleted:?}");
    // The earlier options need no further room.
    let taken = open(&thief, taking([])).await.expect("it is taken");
    assert_eq!(taken.turns().await.unwrap(), 1);
    assert_eq!((objects(&holder).await, objects(&thief).await), (0, 1));
}

/// Two connections take a session from each other while both send turns: exactly one holds it at any time.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_taken_repeatedly_has_one_holder() {
    let daemon = Daemon::start("tokens=2").await;
    let clients = [daemon.client().await, daemon.client().await];
    let begin = || taking([("persistent", false.into())]);
    let takes = async |client: &Client| {
        for turn in 0..50 {
            let options = if turn % 5 == 4 {
                // A session without a file cannot become persistent: this take is refused.
                taking([("persistent", true.into())])
            } else {
                begin()
            };
            let Ok(session) = open(client, options).await else {
                continue;
            };
            match session.send("a", fields([])).await {
                Ok((_, stream)) => {
                    let answer = Reader::new(stream).answer().await;
                    assert_eq!(answer.error, None);
                }
                Err(Error::Busy(_)) => {}
                Err(Error::Bus(zbus::Error::FDO(error))) => {
                    assert!(matches!(*error, fdo::Error::UnknownObject(_)), "{error}");
                }
                Err(error) => panic!("{error}"),
            }
        }
    };
    tokio::join!(takes(&clients[0]), takes(&clients[1]));
    let has = [objects(&clients[0]).await, objects(&clients[1]).await];
    assert_eq!(has.iter().sum::<usize>(), 1, "{has:?}");
    let (holder, other) = if has[0] == 1 { (0, 1) } else { (1, 0) };
    let deleted = clients[other].manager.delete_session("talk").await;
    assert!(matches!(deleted, Err(Error::Busy(_))), "{deleted:?}");
    let session = open(&clients[holder], begin()).await.expect("from itself");
    assert_eq!(objects(&clients[holder]).await, 1);
    session.close().await.unwrap();
    until(async || {
        clients[other].manager.sessions().await.unwrap() == 0
            || clients[other].manager.delete_session("talk").await.is_ok()
    })
    .await;
}

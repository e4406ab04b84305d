//! One user's limits: an error names the limit, and other users do not notice.

use ganglion::bus::{BusConfig, Error};
use ganglion::engine::{Limits, UserLimits};

use super::policy::{Identity, NOBODY};
use super::{ask, fields};
use crate::support::daemon::{Daemon, LIMITS, until};
use crate::support::needs;
use crate::support::private_bus::GROUPS;
use crate::support::stream::Reader;

const MANAGER: &str = "org.ganglion.Llm1.Manager";

fn user(requests: usize, sessions: usize, queue_percent: usize) -> Limits {
    Limits {
        user: UserLimits {
            requests,
            sessions,
            queue_percent,
            kv_percent: 100,
        },
        ..LIMITS
    }
}

fn refused<T: std::fmt::Debug>(result: Result<T, Error>, key: &str) {
    match result {
        Err(Error::QuotaExceeded(message)) => assert!(message.contains(key), "{message}"),
        other => panic!("not refused for {key}: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_has_a_share_of_the_queue() {
    let daemon = Daemon::start("delay=3600s").await;
    daemon.engine.set_limits(user(256, 4, 25));
    let clients = [daemon.client().await, daemon.client().await];
    // One request runs and two wait: a quarter of eight. The user's other connections share that limit.
    let mut running = Reader::new(ask(&clients[0], "a b", fields([])).await.unwrap().1);
    running.next().await.expect("it runs");
    let mut waiting = Vec::new();
    for client in &clients {
        waiting.push(ask(client, "hello", fields([])).await.unwrap());
    }
    for client in &clients {
        let more = ask(client, "hello", fields([])).await;
        refused(more, "limits.queue_percent_per_user (25)");
    }
    let session = clients[0].manager.open_session(fields([])).await.unwrap();
    let session = clients[0].session(session).await;
    let more = session.send("hello", fields([])).await;
    refused(more, "limits.queue_percent_per_user (25)");
    assert!(!session.busy().await.unwrap(), "it may try again");

    if needs::root() {
        // Another user still gets a place. Its request is visible only in the queue's length.
        let address = daemon.bus.text().to_owned();
        let before = clients[0].manager.queue_length().await.unwrap();
        tokio::task::spawn_blocking(move || {
            let other = Identity {
                user: NOBODY,
                groups: vec![GROUPS[0].2],
            };
            other.call(&address, [MANAGER, "Complete"], &["sa{sv}", "hello", "0"])
        });
        until(async || clients[0].manager.queue_length().await.unwrap() == before + 1).await;
    }

    // A free place can be used again.
    drop(waiting.pop());
    until(async || match ask(&clients[1], "hello", fields([])).await {
        Ok(one) => {
            waiting.push(one);
            true
        }
        Err(Error::QuotaExceeded(_)) => false,
        Err(other) => panic!("{other:?}"),
    })
    .await;
}

/// A request counts until its answer has been read, on any connection of the user.
#[tokio::test(flavor = "multi_thread")]
async fn unread_answers_count_as_requests_of_their_user() {
    let config = BusConfig::default();
    let daemon = Daemon::with("tokens=20000,context=1000000", 8, config).await;
    daemon.engine.set_limits(user(2, 4, 100));
    let clients = [daemon.client().await, daemon.client().await];
    // More than a pipe holds.
    let long = || fields([("max_tokens", 4096u32.into())]);
    let (_, first) = ask(&clients[0], "hello", long()).await.unwrap();
    let _second = ask(&clients[1], "hello", long()).await.unwrap();
    until(async || clients[0].manager.queue_length().await.unwrap() == 0).await;
    for client in &clients {
        refused(
            ask(client, "hello", fields([])).await,
            "limits.requests_per_user",
        );
        refused(
            client.manager.complete("hello", fields([])).await,
            "limits.requests_per_user",
        );
    }
    Reader::new(first).answer().await;
    until(async || {
        clients[0]
            .manager
            .complete("hello", fields([]))
            .await
            .is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_counted_by_user_until_they_close() {
    let daemon = Daemon::start("").await;
    daemon.engine.set_limits(user(256, 2, 100));
    let (stays, leaves) = (daemon.client().await, daemon.client().await);
    let first = stays.manager.open_session(fields([])).await.unwrap();
    leaves.manager.open_session(fields([])).await.unwrap();
    refused(
        stays.manager.open_session(fields([])).await,
        "limits.sessions_per_user",
    );
    // The limit for all users, for comparison.
    daemon.engine.set_limits(Limits {
        sessions: 2,
        ..LIMITS
    });
    match stays.manager.open_session(fields([])).await {
        Err(Error::Busy(message)) => {
            assert!(message.contains("raise limits.sessions"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    daemon.engine.set_limits(user(256, 2, 100));
    stays.session(first).await.close().await.unwrap();
    stays.manager.open_session(fields([])).await.unwrap();
    leaves.connection.close().await.unwrap();
    until(async || stays.manager.open_session(fields([])).await.is_ok()).await;
}

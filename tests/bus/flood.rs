//! Far more requests than a user may have: each is answered or refused, and the daemon continues.

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use ganglion::bus::Error;
use ganglion::engine::FinishReason;

use super::{ask, fields};
use crate::support::daemon::{Client, EVENTUALLY, until};
use crate::support::private_bus::PrivateBus;
use crate::support::process::Process;
use crate::support::stream::Reader;

const CONNECTIONS: usize = 100;
const REQUESTS: usize = 100;
/// dbus-daemon allows a connection 128 pending replies.
const AT_ONCE: usize = 50;
/// The allocator's noise. Two kilobytes leaked per request would exceed it.
const GROWTH: u64 = 16 << 20;

/// All clients are one user here, so one user may have the whole queue.
const LIMITS: &str =
    "queue.capacity = 32\n[limits]\nrequests_per_user = 256\nqueue_percent_per_user = 100\n";

/// Sends all requests at once and counts the answers.
async fn flood(client: &Client) -> usize {
    let requests =
        stream::iter(0..REQUESTS).map(async |_| match ask(client, "hello", fields([])).await {
            Ok((_, stream)) => {
                let answer = Reader::new(stream).answer().await;
                assert_eq!(answer.text, "sim: hello hello hello");
                assert_eq!(answer.reason, FinishReason::Stop);
                true
            }
            Err(Error::Busy(_) | Error::QuotaExceeded(_)) => false,
            Err(other) => panic!("{other:?}"),
        });
    let outcomes = requests.buffer_unordered(AT_ONCE);
    outcomes
        .filter(|answered| std::future::ready(*answered))
        .count()
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_requests_from_a_hundred_connections() {
    let bus = PrivateBus::start();
    let mut daemon = Process::start(&bus, "tokens=4", LIMITS).await;
    let clients = join_all((0..CONNECTIONS).map(|_| Client::connect(&bus))).await;
    let mut resident = Vec::new();
    for _ in 0..2 {
        let counts = join_all(clients.iter().map(flood));
        let counts = tokio::time::timeout(5 * EVENTUALLY, counts);
        let counts = counts.await.expect("every call is answered");
        assert!(counts.iter().sum::<usize>() > 0, "some were answered");
        resident.push(daemon.resident().unwrap());
    }
    // The first round includes the allocator's growth for that many simultaneous calls.
    assert!(resident[1] < resident[0] + GROWTH, "{resident:?}");

    let client = &clients[0];
    until(async || client.manager.queue_length().await.unwrap() == 0).await;
    let (_, stream) = ask(client, "after", fields([])).await.unwrap();
    assert_eq!(
        Reader::new(stream).answer().await.text,
        "sim: after after after"
    );
    assert!(daemon.lives());
}

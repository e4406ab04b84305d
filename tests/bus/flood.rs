//! Far more requests than anyone may ask: each is answered or refused, and the daemon goes on.

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use ganglion::bus::{BusConfig, Error};
use ganglion::engine::FinishReason;

use super::{ask, fields};
use crate::support::daemon::{Daemon, eventually};
use crate::support::stream::Reader;

const CONNECTIONS: usize = 100;
const REQUESTS: usize = 100;
/// dbus-daemon lets a connection wait for 128 replies.
const AT_ONCE: usize = 50;

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_requests_from_a_hundred_connections() {
    let config = BusConfig {
        requests: 64,
        ..BusConfig::default()
    };
    let daemon = Daemon::with("tokens=4", 32, config).await;
    let clients = join_all((0..CONNECTIONS).map(|_| daemon.client())).await;
    let rounds = join_all(clients.iter().map(async |client| {
        let requests =
            stream::iter(0..REQUESTS).map(async |_| match ask(client, "hello", fields([])).await {
                Ok((_, stream)) => {
                    let answer = Reader::new(stream).answer().await;
                    assert_eq!(answer.text, "sim: hello hello hello");
                    assert_eq!(answer.reason, FinishReason::Stop);
                    true
                }
                Err(Error::Busy(_)) => false,
                Err(other) => panic!("{other:?}"),
            });
        let answered = requests.buffer_unordered(AT_ONCE);
        answered
            .filter(|answered| std::future::ready(*answered))
            .count()
            .await
    }));
    let answered: usize = tokio::time::timeout(5 * crate::support::daemon::EVENTUALLY, rounds)
        .await
        .expect("every call is answered")
        .into_iter()
        .sum();
    assert!(answered > 0, "some were answered");

    let client = daemon.client().await;
    eventually(daemon.engine.idle()).await;
    eventually(daemon.served.delivered()).await;
    let (_, stream) = ask(&client, "after", fields([])).await.unwrap();
    assert_eq!(
        Reader::new(stream).answer().await.text,
        "sim: after after after"
    );
}

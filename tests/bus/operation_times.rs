//! Times per kind of operation, on request: steps are timed then, and the decode graph stays recorded.

use ganglion::bus::proxy::{DiagnosticsProxy, Info};
use zbus::Variant;
use zbus::proxy::CacheProperties;

use super::{ask, fields};
use crate::support::daemon::{Client, Daemon, until};
use crate::support::restartable::Restartable;
use crate::support::stream::Reader;

async fn diagnostics(client: &Client) -> DiagnosticsProxy<'static> {
    let proxy = DiagnosticsProxy::builder(&client.connection).cache_properties(CacheProperties::No);
    proxy.build().await.expect("the proxy is built")
}

/// The number of steps of an answer, whose first token is its prompt's.
async fn answer(client: &Client) -> u64 {
    let options = fields([("max_tokens", Variant::U32(8))]);
    let (_, stream) = ask(client, "abc", options).await.expect("it is accepted");
    let answer = Reader::new(stream).answer().await;
    assert_eq!(answer.error, None);
    u64::from(answer.usage.completion_tokens - 1)
}

fn number(info: &Info, key: &str) -> u64 {
    match info.get(key).map(|value| &**value) {
        None => 0,
        Some(Variant::U64(number)) => *number,
        Some(other) => panic!("{key} is {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_each_kind_of_operation_is_measured_on_request() {
    let mut served = Restartable::new();
    let client = served.start("kv.context = 256\n").await;
    let diagnostics = diagnostics(&client).await;
    answer(&client).await;
    let before = diagnostics.decode_graph().await.expect("a value");
    let first = diagnostics.timing().await.expect("a value");
    assert!(
        !first.contains_key("operations"),
        "no step was timed: {first:?}"
    );

    // Steps are timed for a while after the request, however late they run on a busy machine.
    let mut timing = Info::new();
    let (mut answers, mut steps) = (0, 0);
    until(async || {
        steps += answer(&client).await;
        answers += 1;
        timing = diagnostics.timing().await.expect("a value");
        number(&timing, "timed_steps") > 0
    })
    .await;
    let Variant::Dict(kinds) = &*timing["operations"] else {
        panic!("{timing:?}")
    };
    let names: Vec<String> = kinds.iter().map(|(name, _)| name.to_string()).collect();
    for name in ["attend", "qkv", "head"] {
        assert!(names.iter().any(|one| one.contains(name)), "{names:?}");
    }
    let graph = diagnostics.decode_graph().await.expect("a value");
    // One change for each turn's new prompt, and none for the timed steps.
    let of = |key: &str| number(&graph, key) - number(&before, key);
    assert_eq!(
        (of("recordings"), of("failures")),
        (answers, 0),
        "{graph:?}"
    );
    assert_eq!(
        of("eager_steps"),
        number(&timing, "timed_steps"),
        "{graph:?}"
    );
    assert_eq!(diagnostics.graph_state().await.expect("a value"), "valid");
    assert_eq!(of("launches") + of("eager_steps"), steps, "{graph:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_without_operations_reports_none() {
    let daemon = Daemon::start("").await;
    let client = daemon.client().await;
    let diagnostics = diagnostics(&client).await;
    for _ in 0..2 {
        let timing = diagnostics.timing().await.expect("a value");
        for key in ["operations", "timed_steps"] {
            assert!(!timing.contains_key(key), "{timing:?}");
        }
        answer(&client).await;
    }
}

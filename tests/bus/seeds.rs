//! The seed of an answer and its finish reason, with a model.

use ganglion::bus::proxy::Fields;
use ganglion::telemetry::FinishReason;
use zbus::Variant;

use super::{ask, fields};
use crate::support::daemon::{Client, Daemon};
use crate::support::restartable::Restartable;
use crate::support::signals::Signals;
use crate::support::stream::{Answer, Reader};

async fn answer(client: &Client, options: Fields<'_>) -> Answer {
    let (_, stream) = ask(client, "hello", options).await.unwrap();
    Reader::new(stream).answer().await
}

fn varied<const N: usize>(more: [(&'static str, Variant<'static>); N]) -> Fields<'static> {
    let mut options = fields([("temperature", 2.into()), ("max_tokens", 24u32.into())]);
    options.extend(more);
    options
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_vary_and_each_can_be_had_again() {
    let mut served = Restartable::new();
    let client = served.start("kv.context = 200\n").await;
    let mut first = Vec::new();
    for _ in 0..3 {
        first.push(answer(&client, varied([])).await);
    }
    // Also after a restart.
    let client = served.start("kv.context = 200\n").await;
    first.push(answer(&client, varied([])).await);
    let mut distinct: Vec<_> = first.iter().map(|answer| &answer.text).collect();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), 4, "{first:?}");
    for made in &first {
        // Every JSON reader can represent the number.
        assert!(made.usage.seed < 1 << 53, "{made:?}");
        let seed = made.usage.seed.into();
        let again = answer(&client, varied([("seed", seed)])).await;
        assert_eq!(
            (&again.text, again.usage.seed),
            (&made.text, made.usage.seed)
        );
    }

    let mut signals = Signals::listen(&client).await;
    let options = varied([("seed", u64::MAX.into())]);
    let (path, _stream) = ask(&client, "hello", options).await.unwrap();
    let (_, info) = signals.finished(&path).await;
    assert_eq!(*info["seed"], Variant::U64(u64::MAX));

    // With a seed in the configuration answers do not vary, unless a request asks for it.
    let client = served.start("kv.context = 200\nsampling.seed = 7\n").await;
    let [one, two] = [
        answer(&client, varied([])).await,
        answer(&client, varied([])).await,
    ];
    assert_eq!((&one.text, one.usage.seed), (&two.text, 7));
    let other = answer(&client, varied([("seed", 8u32.into())])).await;
    assert_ne!(other.text, one.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_context_and_max_tokens_have_different_reasons() {
    let mut served = Restartable::new();
    let model = served.start("kv.context = 200\n").await;
    let script = Daemon::start("tokens=1000,context=50").await;
    for client in [model, script.client().await] {
        let few = fields([("max_tokens", 3u32.into())]);
        assert_eq!(answer(&client, few).await.reason, FinishReason::Length);
        let mut signals = Signals::listen(&client).await;
        // Without a stop token, which the tiny model may choose, only the context's end remains.
        let many = fields([("max_tokens", 4096u32.into())]);
        let (path, stream) = ask(&client, "hello", many).await.unwrap();
        let (reason, info) = signals.finished(&path).await;
        assert_eq!(reason, "context");
        assert_eq!(*info["finish_reason"], Variant::from("context"));
        assert_eq!(
            Reader::new(stream).answer().await.reason,
            FinishReason::Context
        );
    }
}

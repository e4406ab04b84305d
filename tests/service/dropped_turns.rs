//! Sessions that drop their oldest turns at the context's end: the idle daemon prefills the next turn's prefix, which
//! changes no answer.

use ganglion::bus::proxy::{DiagnosticsProxy, Fields, SessionProxy};
use ganglion::telemetry::Usage;
use zbus::Variant;
use zbus::proxy::CacheProperties;

use crate::support::daemon::{Client, until};
use crate::support::restartable::Restartable;
use crate::support::stream::Reader;

const CONTEXT: u32 = 512;
const ANSWER: u32 = 16;
const TURNS: usize = 24;

/// The event between two turns.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Between {
    /// The daemon is idle until the prefill has finished.
    Idle,
    /// A call stops the prefill.
    Stopped,
    /// The daemon restarts.
    Restarted,
}

async fn open(client: &Client) -> SessionProxy<'static> {
    let options = Fields::from([
        ("name", "companion".into()),
        ("system", "be brief".into()),
        ("max_tokens", ANSWER.into()),
        ("temperature", 0.0.into()),
        ("context_overflow", "truncate_oldest".into()),
    ]);
    let path = client
        .manager
        .open_session(options)
        .await
        .expect("it opens");
    client.session(path).await
}

/// Whether the last finished request is a prefill, which chooses one token.
async fn has_prefilled(client: &Client) -> bool {
    let diagnostics = DiagnosticsProxy::builder(&client.connection)
        .cache_properties(CacheProperties::No)
        .build()
        .await
        .expect("the proxy is built");
    let timing = diagnostics.timing().await.expect("a dictionary");
    *timing["completion_tokens"] == Variant::U32(1)
}

/// Returns the answers of a conversation in its own daemon, and their cost.
async fn talk(between: Between) -> Vec<(String, Usage)> {
    let mut served = Restartable::new();
    let folder = served.folder.path().join("sessions");
    let config = format!(
        "kv.context = {CONTEXT}\nsessions.directory = '{}'\n",
        folder.display()
    );
    let mut client = served.start(&config).await;
    let mut session = open(&client).await;
    let mut answers = Vec::new();
    for turn in 0..TURNS {
        let text = format!("this is message {turn}, with some words");
        let sent = session.send(&text, Fields::new()).await;
        let (_, stream) = sent.expect("it is sent");
        let answer = Reader::new(stream).answer().await;
        assert_eq!(answer.error, None);
        let used = answer.usage.prompt_tokens + answer.usage.completion_tokens;
        answers.push((answer.text, answer.usage));
        match between {
            // Without an eighth of the context for a message, the answer would not fit.
            Between::Idle if used + CONTEXT / 8 + ANSWER > CONTEXT + 2 => {
                until(async || has_prefilled(&client).await).await;
            }
            Between::Stopped => session.rewind(0).await.expect("nothing is rewound"),
            Between::Restarted if turn % 3 == 2 => {
                client = served.start(&config).await;
                session = open(&client).await;
            }
            Between::Idle | Between::Restarted => {}
        }
    }
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn the_turn_after_a_drop_prefills_few_tokens_and_answers_the_same() {
    let (ahead, stopped, restarted) = tokio::join!(
        talk(Between::Idle),
        talk(Between::Stopped),
        talk(Between::Restarted)
    );
    let said = |answers: &[(String, Usage)]| {
        let answers = answers.iter();
        let said = answers.map(|(text, usage)| {
            let Usage {
                prompt_tokens,
                dropped_turns,
                ..
            } = usage;
            (text.clone(), *prompt_tokens, *dropped_turns)
        });
        said.collect::<Vec<_>>()
    };
    assert_eq!(said(&ahead), said(&stopped));
    assert_eq!(said(&ahead), said(&restarted));
    let after_drop = |answers: &[(String, Usage)]| {
        let dropped = answers.iter().filter(|(_, usage)| usage.dropped_turns > 0);
        let read = dropped.map(|(_, usage)| usage.prompt_tokens - usage.cached_tokens);
        read.collect::<Vec<_>>()
    };
    let (ahead, stopped) = (after_drop(&ahead), after_drop(&stopped));
    // A message has fewer than 60 tokens, and the remaining turns more than 150.
    assert!(ahead.len() > 2, "{ahead:?}");
    assert!(ahead.iter().all(|read| *read < 60), "{ahead:?}");
    assert!(stopped.iter().any(|read| *read > 150), "{stopped:?}");
}

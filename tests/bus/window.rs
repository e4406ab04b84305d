//! Conversations in the KV cache of a real model, and the decode graph as D-Bus shows it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;

use futures_util::StreamExt;
use ganglion::bus::PATH;
use ganglion::bus::proxy::{DiagnosticsProxy, Info, SessionProxy};
use zbus::message::Type;
use zbus::{MatchRule, MessageStream, OwnedVariant, Variant};

use super::fields;
use crate::support::daemon::{Client, eventually, until};
use crate::support::needs;
use crate::support::private_bus::PrivateBus;
use crate::support::process::Process;
use crate::support::stream::{Answer, Reader};

const SEA: &str = "Name one sea.";
const SALT: &str = "Is it salty?";
const TREE: &str = "Name one tree.";
const TALL: &str = "Is it tall?";

/// A page of this model has one and a half MiB.
async fn start(bus: &PrivateBus, memory_mib: usize) -> Process {
    let model =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("target/models/SmolLM2-135M-Instruct.Q4_1.gguf");
    let config = format!(
        "backend = 'cpu'\nmodel.path = '{}'\nkv = {{ context = 256, memory_mib = {memory_mib} }}\n",
        model.display()
    );
    Process::serving(bus, &config).await
}

async fn open(client: &Client) -> SessionProxy<'static> {
    // Shorter than the system message of the model's template.
    let system = fields([("system", "Be brief.".into())]);
    let path = client.manager.open_session(system).await.unwrap();
    client.session(path).await
}

/// The first tokens of an answer, chosen greedily.
async fn say(session: &SessionProxy<'_>, text: &str) -> Answer {
    let options = fields([("max_tokens", Variant::U32(4))]);
    let (_, stream) = session.send(text, options).await.unwrap();
    let answer = Reader::new(stream).answer().await;
    assert_eq!(answer.error, None);
    answer
}

/// Two conversations in alternate turns.
async fn alternate(sea: &SessionProxy<'_>, tree: &SessionProxy<'_>) -> [Answer; 3] {
    [
        say(sea, SEA).await,
        say(tree, TREE).await,
        say(sea, SALT).await,
    ]
}

fn number(info: &Info, key: &str) -> u64 {
    match *info[key] {
        Variant::U64(number) => number,
        ref other => panic!("{key} is {other:?}"),
    }
}

fn word<'a>(info: &'a Info, key: &str) -> &'a str {
    match &*info[key] {
        Variant::Str(word) => word,
        other => panic!("{key} is {other:?}"),
    }
}

/// Checks the times after two answers.
fn check_timing(timing: &Info, [first, last]: [&Answer; 2]) {
    let made = first.usage.completion_tokens + last.usage.completion_tokens;
    assert_eq!(number(timing, "tokens"), u64::from(made));
    assert_eq!(number(timing, "steps"), u64::from(made) - 2, "{timing:?}");
    for of in ["step", "host"] {
        let [p50, max] = ["p50", "max"].map(|at| timing[&format!("{of}_{at}_us")].clone());
        assert!(
            matches!((&*p50, &*max), (Variant::F64(p50), Variant::F64(max)) if 0.0 < *p50 && p50 <= max),
            "{timing:?}"
        );
    }
    assert_eq!(
        *timing["completion_tokens"],
        Variant::U32(last.usage.completion_tokens)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_keep_their_pages_and_the_graph_reports_changes() {
    if !needs::smollm2() {
        return;
    }
    let bus = PrivateBus::start();
    let daemon = start(&bus, 12).await;
    let client = Client::connect(&bus).await;
    let diagnostics = DiagnosticsProxy::new(&client.connection).await.unwrap();
    assert_eq!(diagnostics.graph_state().await.unwrap(), "invalid");
    let graph = diagnostics.decode_graph().await.unwrap();
    assert_eq!(
        (word(&graph, "reason"), number(&graph, "epoch")),
        ("start", 0)
    );

    // The next turn continues from the cached conversation.
    let session = open(&client).await;
    let sea = say(&session, SEA).await;
    let after_first = session.context_used().await.unwrap();
    let salt = say(&session, SALT).await;
    assert!(
        salt.usage.cached_tokens >= sea.usage.prompt_tokens,
        "{salt:?}"
    );
    let graph = diagnostics.decode_graph().await.unwrap();
    assert_eq!(word(&graph, "state"), "valid", "{graph:?}");
    assert_eq!(word(&graph, "mode"), "full_decode_only");
    assert_eq!(word(&graph, "reason"), "new_turn");
    assert_eq!(number(&graph, "epoch"), 2);
    assert_eq!(number(&graph, "recordings"), 1, "once for all: {graph:?}");
    assert_eq!(number(&graph, "verified"), 1, "{graph:?}");
    assert_eq!(
        number(&graph, "eager_steps"),
        1,
        "the first of all: {graph:?}"
    );
    for (key, least) in [("nodes", 100), ("launches", 3), ("instantiations", 1)] {
        assert!(number(&graph, key) >= least, "{key}: {graph:?}");
    }
    let timing = diagnostics.timing().await.unwrap();
    check_timing(&timing, [&sea, &salt]);

    // A rewound turn leaves nothing in the prompt.
    session.rewind(1).await.unwrap();
    // The engine's thread learns of the rewind a moment later.
    until(async || {
        let graph = diagnostics.decode_graph().await.unwrap();
        (word(&graph, "state"), word(&graph, "reason")) == ("invalid", "rewound")
    })
    .await;
    assert_eq!(session.turns().await.unwrap(), 1);
    assert_eq!(session.context_used().await.unwrap(), after_first);
    let again = say(&session, SALT).await;
    assert_eq!(again.text, salt.text);
    assert!(again.usage.cached_tokens >= after_first - 1, "{again:?}");

    // After a clear the session starts again. With enough pages both conversations stay cached; with one page they do
    // not, and the answers are equal.
    session.clear().await.unwrap();
    assert_eq!(session.history().await.unwrap().len(), 1);
    let tree = open(&client).await;
    let kept = alternate(&session, &tree).await;
    assert_eq!((&kept[0].text, &kept[2].text), (&sea.text, &salt.text));
    assert!(
        kept[2].usage.cached_tokens >= kept[0].usage.prompt_tokens,
        "{kept:?}"
    );
    let tall = say(&tree, TALL).await;
    assert!(
        tall.usage.cached_tokens >= kept[1].usage.prompt_tokens,
        "{tall:?}"
    );
    let graph = diagnostics.decode_graph().await.unwrap();
    // On the CPU each conversation has its own addresses; a GPU's kernels look theirs up.
    assert!(
        word(&graph, "reason").starts_with("moved: kv moved"),
        "{graph:?}"
    );
    assert_eq!(number(&graph, "failures"), 0);
    drop(daemon);

    let bus = PrivateBus::start();
    let _daemon = start(&bus, 2).await;
    let client = Client::connect(&bus).await;
    let lost = alternate(&open(&client).await, &open(&client).await).await;
    assert!(
        lost[2].usage.cached_tokens < lost[0].usage.prompt_tokens,
        "{lost:?}"
    );
    // The last chosen token was not computed yet.
    let computed = lost[0].usage.prompt_tokens + lost[0].usage.completion_tokens - 1;
    let restored = computed - lost[2].usage.cached_tokens;
    assert_eq!(lost[2].usage.reread_tokens, restored, "{lost:?}");
    assert!(
        kept.iter().all(|answer| answer.usage.reread_tokens == 0),
        "{kept:?}"
    );
    assert_eq!(
        kept.map(|answer| answer.text),
        lost.map(|answer| answer.text)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_is_reported_and_the_graph_can_be_drawn() {
    if !needs::smollm2() {
        return;
    }
    let bus = PrivateBus::start();
    let _daemon = start(&bus, 2).await;
    let client = Client::connect(&bus).await;
    let diagnostics = DiagnosticsProxy::new(&client.connection).await.unwrap();
    let mut states = States::listen(&client).await;
    let session = open(&client).await;
    let first = say(&session, SEA).await;
    states.reaches("valid").await;

    let dot: std::os::fd::OwnedFd = diagnostics.dump_graph().await.unwrap().into();
    let mut dot = File::from(dot);
    let mut text = String::new();
    dot.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("digraph"), "{text}");
    assert!(text.trim_end().ends_with('}'), "it is whole: {text}");
    dot.write_all(b"x").expect_err("it is sealed");

    diagnostics.reset_graph().await.unwrap();
    states.reaches("invalid").await;
    assert_eq!(
        word(&diagnostics.decode_graph().await.unwrap(), "reason"),
        "reset"
    );
    session.clear().await.unwrap();
    assert_eq!(say(&session, SEA).await.text, first.text);
    states.reaches("valid").await;
}

/// Open sessions with the same system message prefill it once.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_session_shares_the_same_system_message() {
    if !needs::smollm2() {
        return;
    }
    let bus = PrivateBus::start();
    let _daemon = start(&bus, 12).await;
    let client = Client::connect(&bus).await;
    let rules = "You answer questions about seas and trees in one word, and in no more than one. "
        .repeat(6);
    let open = async |client: &Client| {
        let system = fields([("system", rules.as_str().into())]);
        let path = client.manager.open_session(system).await.unwrap();
        client.session(path).await
    };
    let (sea, tree) = (open(&client).await, open(&client).await);
    let first = say(&sea, SEA).await;
    assert_eq!(first.usage.cached_tokens, 0);
    let second = say(&tree, TREE).await;
    let computed = second.usage.prompt_tokens - second.usage.cached_tokens;
    let question = u32::try_from(TREE.len()).unwrap();
    assert!(
        computed < 16 + question && second.usage.prompt_tokens > 100,
        "{computed} tokens were computed of {second:?}"
    );
    // Both continue from their cached pages, with the answers that each has alone.
    assert!(say(&sea, SALT).await.usage.cached_tokens > first.usage.prompt_tokens);
    assert!(say(&tree, TALL).await.usage.cached_tokens > second.usage.prompt_tokens);
    let bus = PrivateBus::start();
    let _daemon = start(&bus, 12).await;
    let client = Client::connect(&bus).await;
    let alone = say(&open(&client).await, TREE).await;
    assert_eq!(alone.usage.cached_tokens, 0);
    assert_eq!(second.text, alone.text);
}

/// Changes of `GraphState` on the bus.
struct States(MessageStream);

impl States {
    async fn listen(client: &Client) -> Self {
        let rule = MatchRule::builder()
            .msg_type(Type::Signal)
            .path(PATH)
            .interface("org.freedesktop.DBus.Properties")
            .build()
            .unwrap();
        let stream = MessageStream::for_match_rule(rule, &client.connection, None).await;
        Self(stream.unwrap())
    }

    async fn reaches(&mut self, state: &str) {
        loop {
            let signal = eventually(self.0.next()).await.unwrap().unwrap();
            let (interface, changed, _): (String, HashMap<String, OwnedVariant>, Vec<String>) =
                signal.body().deserialize().unwrap();
            let Some(now) = changed.get("GraphState") else {
                continue;
            };
            assert_eq!(interface, "org.ganglion.Llm1.Diagnostics");
            if **now == Variant::from(state) {
                return;
            }
        }
    }
}

//! The decode graph in every mode: the journal's events and D-Bus agree with the life cycle.

use std::time::Duration;

use ganglion::bus::proxy::{DiagnosticsProxy, Info, SessionProxy};
use ganglion::bus::{Bus, BusConfig, serve};
use ganglion::engine::{Handle, State, channel, worker};
use ganglion::front::{self, Front};
use ganglion::graph::Mode;
use ganglion::journal::EVENTS;
use ganglion::load::{self, Backend, KvMemory};
use zbus::Variant;
use zbus::proxy::CacheProperties;

use super::fields;
use crate::support::daemon::{Client, LIMITS, eventually, until};
use crate::support::journal::{Entry, Journal};
use crate::support::private_bus::PrivateBus;
use crate::support::stream::Reader;
use crate::support::tiny_gguf;

/// No answer runs when another model is loaded.
const DRAIN: Duration = Duration::ZERO;

/// An in-process daemon with a tiny model, and all events of its engine.
struct Daemon {
    _bus: PrivateBus,
    _served: Bus,
    folder: tempfile::TempDir,
    engine: Handle,
    journal: Journal,
    client: Client,
    diagnostics: DiagnosticsProxy<'static>,
    mode: Mode,
    /// Changes of the cache so far.
    epoch: u64,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.engine.close();
    }
}

impl Daemon {
    async fn start(mode: Mode) -> Self {
        let (bus, folder) = (PrivateBus::start(), tempfile::tempdir().unwrap());
        std::fs::write(
            folder.path().join("tiny.gguf"),
            tiny_gguf::with_vocabulary().file(),
        )
        .unwrap();
        let (engine, inbox) = channel(LIMITS);
        let front = Front::new(engine.clone());
        front.configure(front::Config::default());
        let served = serve(&bus.address(), front).await.unwrap();
        served.configure(BusConfig::default());
        let journal = Journal::default();
        let (first, captured) = (settings(&folder, mode, 2, 0), journal.clone());
        std::thread::spawn(move || captured.during(|| worker::run(&inbox, &first)));
        let mut status = engine.status();
        eventually(status.wait_for(|status| status.state == State::Ready))
            .await
            .unwrap();
        let client = Client::connect(&bus).await;
        let diagnostics = DiagnosticsProxy::builder(&client.connection)
            .cache_properties(CacheProperties::No)
            .build()
            .await
            .unwrap();
        Self {
            _bus: bus,
            _served: served,
            folder,
            engine,
            journal,
            client,
            diagnostics,
            mode,
            epoch: 0,
        }
    }

    async fn session(&self) -> SessionProxy<'static> {
        let opened = self.client.manager.open_session(fields([])).await;
        self.client.session(opened.unwrap()).await
    }

    async fn say(&mut self, session: &SessionProxy<'_>) {
        let options = fields([("max_tokens", Variant::U32(6))]);
        let (_, stream) = session.send("abc", options).await.unwrap();
        let answer = Reader::new(stream).answer().await;
        assert_eq!((answer.error, answer.usage.completion_tokens), (None, 6));
        self.epoch += 1;
    }

    async fn replace(&mut self, mode: Mode, slots: usize, refusals: u32) {
        let settings = settings(&self.folder, mode, slots, refusals);
        self.engine.replace(settings, DRAIN).await.unwrap();
        self.mode = mode;
    }

    /// Waits until all changes of the cache are visible. Compares D-Bus's present state and the journal's new events
    /// with the expected ones: the state, its reason, and each graph event in a few words.
    async fn is(&mut self, what: &str, state: &str, reason: &str, events: &[&str]) {
        let mode = self.mode.name();
        let mut graph = Info::new();
        until(async || {
            graph = self.diagnostics.decode_graph().await.unwrap();
            *graph["epoch"] == Variant::U64(self.epoch)
        })
        .await;
        let word = |key: &str| match &*graph[key] {
            Variant::Str(word) => word.as_str().to_owned(),
            other => panic!("{key} is {other:?}"),
        };
        assert_eq!(
            (word("mode"), word("state")),
            (mode.into(), state.into()),
            "{what}"
        );
        assert!(
            word("reason").starts_with(reason),
            "{mode}: {what}: {graph:?}"
        );
        assert_eq!(
            self.diagnostics.graph_state().await.unwrap(),
            state,
            "{mode}: {what}"
        );

        let entries = self.journal.take();
        let mut of_graph: Vec<_> = entries.iter().filter_map(in_words).collect();
        if events.contains(&"failed") {
            of_graph.retain(|event| !event.starts_with("recorded"));
        }
        assert_eq!(of_graph, events, "{mode}: {what}");
        // The last event with a state or a count of changes agrees with D-Bus.
        let last = |field| entries.iter().rev().find_map(|entry| entry.get(field));
        if let Some(last) = last("graph_state") {
            assert_eq!(last, state, "{mode}: {what}: {entries:?}");
        }
        if let Some(last) = last("kv_epoch") {
            assert_eq!(*last, self.epoch.to_string(), "{mode}: {what}");
        }
    }
}

fn settings(
    folder: &tempfile::TempDir,
    mode: Mode,
    slots: usize,
    refuse_launches: u32,
) -> worker::Settings {
    let mut runner = load::Settings {
        backend: Backend::Cpu,
        context: 256,
        kv_memory: KvMemory::Conversations(slots),
        threads: 1,
        ..load::Settings::default()
    };
    runner.graph.mode = mode;
    runner.graph.refuse_launches = refuse_launches;
    worker::Settings {
        model: folder.path().join("tiny.gguf"),
        chat_template: None,
        runner,
    }
}

/// Returns an entry's event and reason, without renewed segments and without the part of the graph.
fn in_words(entry: &Entry) -> Option<String> {
    let event = EVENTS
        .iter()
        .find(|event| event.message_id == entry["message_id"])?;
    let name = event.name.strip_prefix("graph_")?;
    let reason = entry.get("reason").map_or("", String::as_str);
    let reason = reason.split(':').next().unwrap_or_default();
    (name != "renewed").then(|| format!("{name} {reason}").trim_end().to_owned())
}

/// One life cycle: turns, a rewind, another session, a reset, another cache, and a disabled graph.
#[allow(clippy::too_many_lines)] // one life cycle from beginning to end
async fn live(mode: Mode) {
    let mut daemon = Daemon::start(mode).await;
    let none = mode == Mode::None;
    // Either something is recorded or nothing is.
    let of = |recorded: &'static str| match mode {
        Mode::None => ("disabled", "mode"),
        _ => recorded.split_once(' ').unwrap(),
    };
    let unless_none = |recorded: &'static [&'static str]| if none { &[] } else { recorded };
    let d = &mut daemon;
    let (state, reason) = of("invalid start");
    d.is("the start", state, reason, &[]).await;

    let (mine, other) = (d.session().await, d.session().await);
    d.say(&mine).await;
    let (state, reason) = of("valid new_turn");
    d.is("a turn", state, reason, unless_none(&["recorded new_turn"]))
        .await;
    d.say(&mine).await;
    // The tokenizer writes this model's text in other tokens, so the last ones are prefilled again.
    let (state, reason) = of("valid rewound");
    let verified = unless_none(&["invalid rewound", "verified rewound"]);
    d.is("a second turn", state, reason, verified).await;

    mine.rewind(1).await.unwrap();
    d.epoch += 1;
    let (state, reason) = of("invalid rewound");
    let invalid = unless_none(&["invalid rewound"]);
    d.is("a rewind", state, reason, invalid).await;
    d.say(&mine).await;
    let (state, reason) = of("valid new_turn");
    let verified = unless_none(&["verified new_turn"]);
    d.is("a turn after it", state, reason, verified).await;

    // On the CPU each conversation has its own addresses; a GPU's kernels look theirs up.
    d.say(&other).await;
    let (state, reason) = of("valid moved: kv moved");
    let recorded = unless_none(&["invalid switched", "recorded moved"]);
    d.is("another session", state, reason, recorded).await;
    mine.clear().await.unwrap();
    d.epoch += 1;
    let (state, reason) = of("invalid cleared");
    let invalid = unless_none(&["invalid cleared"]);
    d.is("a session that is cleared", state, reason, invalid)
        .await;
    d.say(&mine).await;
    let (state, reason) = of("valid moved: kv moved");
    d.is(
        "its next turn",
        state,
        reason,
        unless_none(&["recorded moved"]),
    )
    .await;

    d.diagnostics.reset_graph().await.unwrap();
    let (state, reason) = of("invalid reset");
    let by_operator: &[_] = if none {
        &["reset"]
    } else {
        &["reset", "invalid reset"]
    };
    d.is("a reset", state, reason, by_operator).await;
    d.say(&mine).await;
    d.journal.take();

    // From here another runner with other memory runs, in the same life cycle.
    d.replace(mode, 3, 0).await;
    d.epoch += 1;
    let (state, reason) = of("invalid resized");
    let invalid = unless_none(&["invalid resized"]);
    d.is("another cache", state, reason, invalid).await;
    d.say(&mine).await;
    let (state, reason) = of("valid new_turn");
    let recorded = unless_none(&["recorded new_turn"]);
    d.is("a turn with its earlier pages", state, reason, recorded)
        .await;

    // After three refusals the graph is disabled, and later changes of the cache do not hide that. The launch of a
    // one-piece recording fails after the recording.
    d.replace(mode, 2, 3).await;
    d.epoch += 1;
    d.say(&mine).await;
    let (state, reason) = of("disabled refused");
    let disabled = unless_none(&["invalid resized", "failed", "failed", "disabled"]);
    d.is("refusals", state, reason, disabled).await;
    d.say(&mine).await;
    mine.clear().await.unwrap();
    d.epoch += 1;
    d.is("disabled", state, reason, &[]).await;

    // Another mode, as a reload of the configuration sets it.
    let another = if mode == Mode::Piecewise {
        Mode::FullDecodeOnly
    } else {
        Mode::Piecewise
    };
    d.replace(another, 2, 3).await;
    d.is("another mode", "invalid", "mode", &["invalid mode"])
        .await;
    d.replace(Mode::None, 2, 3).await;
    d.is("no mode", "disabled", "mode", &["off"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_every_mode_the_journal_agrees_with_dbus() {
    for mode in Mode::ALL {
        live(mode).await;
    }
}

//! The decode graph in every mode, as the journal tells it and as D-Bus shows it: both are the life cycle.

use std::time::Duration;

use ganglion::bus::proxy::{DiagnosticsProxy, Info, SessionProxy};
use ganglion::bus::{Bus, BusConfig, serve};
use ganglion::engine::{Handle, State, channel, worker};
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

/// Nobody is answered when another model comes.
const DRAIN: Duration = Duration::ZERO;

/// A daemon with a tiny model, within the test, and all that its engine tells the journal.
struct Daemon {
    _bus: PrivateBus,
    _served: Bus,
    folder: tempfile::TempDir,
    engine: Handle,
    journal: Journal,
    client: Client,
    diagnostics: DiagnosticsProxy<'static>,
    mode: Mode,
    /// Changes of the cache that were made.
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
        let served = serve(&bus.address(), engine.clone()).await.unwrap();
        served.configure(BusConfig::default());
        let journal = Journal::default();
        let (first, told) = (settings(&folder, mode, 2, 0), journal.clone());
        std::thread::spawn(move || told.during(|| worker::run(&inbox, &first)));
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

    /// Awaits that all changes of the cache are seen, and holds what D-Bus shows now, and what the journal has told
    /// since, against what is to be: the state and its reason, and each event of the graph in a few words.
    async fn is(&mut self, what: &str, state: &str, reason: &str, told: &[&str]) {
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
        if told.contains(&"failed") {
            of_graph.retain(|event| !event.starts_with("recorded"));
        }
        assert_eq!(of_graph, told, "{mode}: {what}");
        // Whatever else was told, the last that names the state, or counts changes, names and counts as D-Bus does.
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

/// What an entry says of the graph: the event, and why; not that segments were renewed, or which part of it was.
fn in_words(entry: &Entry) -> Option<String> {
    let event = EVENTS
        .iter()
        .find(|event| event.message_id == entry["message_id"])?;
    let name = event.name.strip_prefix("graph_")?;
    let reason = entry.get("reason").map_or("", String::as_str);
    let reason = reason.split(':').next().unwrap_or_default();
    (name != "renewed").then(|| format!("{name} {reason}").trim_end().to_owned())
}

/// One life: turns, what is taken back, another session, a reset, another cache, a graph that is given up.
#[allow(clippy::too_many_lines)] // a life is told from its beginning to its end
async fn live(mode: Mode) {
    let mut daemon = Daemon::start(mode).await;
    let none = mode == Mode::None;
    // Something is recorded, or nothing.
    let of = |recorded: &'static str| match mode {
        Mode::None => ("disabled", "mode"),
        _ => recorded.split_once(' ').unwrap(),
    };
    let told = |recorded: &'static [&'static str]| if none { &[] } else { recorded };
    let d = &mut daemon;
    let (state, reason) = of("invalid start");
    d.is("the start", state, reason, &[]).await;

    let (mine, other) = (d.session().await, d.session().await);
    d.say(&mine).await;
    let (state, reason) = of("valid new_turn");
    d.is("a turn", state, reason, told(&["recorded new_turn"]))
        .await;
    d.say(&mine).await;
    // What this model says is no text that it would write in the same tokens: the last of them are read anew.
    let (state, reason) = of("valid rewound");
    let verified = told(&["invalid rewound", "verified rewound"]);
    d.is("a second turn", state, reason, verified).await;

    mine.rewind(1).await.unwrap();
    d.epoch += 1;
    let (state, reason) = of("invalid rewound");
    let invalid = told(&["invalid rewound"]);
    d.is("what is taken back", state, reason, invalid).await;
    d.say(&mine).await;
    let (state, reason) = of("valid new_turn");
    let verified = told(&["verified new_turn"]);
    d.is("a turn after it", state, reason, verified).await;

    // Here each conversation has addresses of its own; a GPU's kernels find theirs.
    d.say(&other).await;
    let (state, reason) = of("valid moved: kv moved");
    let recorded = told(&["invalid switched", "recorded moved"]);
    d.is("another session", state, reason, recorded).await;
    mine.clear().await.unwrap();
    d.epoch += 1;
    let (state, reason) = of("invalid cleared");
    let invalid = told(&["invalid cleared"]);
    d.is("a session that is cleared", state, reason, invalid)
        .await;
    d.say(&mine).await;
    let (state, reason) = of("valid moved: kv moved");
    d.is("its next turn", state, reason, told(&["recorded moved"]))
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

    // What runs is another runner from here on, with other memory, but the life goes on.
    d.replace(mode, 3, 0).await;
    d.epoch += 1;
    let (state, reason) = of("invalid resized");
    let invalid = told(&["invalid resized"]);
    d.is("another cache", state, reason, invalid).await;
    d.say(&mine).await;
    let (state, reason) = of("valid new_turn");
    let recorded = told(&["recorded new_turn"]);
    d.is("a turn whose pages came along", state, reason, recorded)
        .await;

    // Refused three times, it is given up; what happens to the cache then does not hide that. A launch is refused after
    // the recording was made, where that is of one piece.
    d.replace(mode, 2, 3).await;
    d.epoch += 1;
    d.say(&mine).await;
    let (state, reason) = of("disabled refused");
    let given_up = told(&["invalid resized", "failed", "failed", "disabled"]);
    d.is("refusals", state, reason, given_up).await;
    d.say(&mine).await;
    mine.clear().await.unwrap();
    d.epoch += 1;
    d.is("disabled", state, reason, &[]).await;

    // And another mode, as a reload of the configuration sets it.
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
async fn in_every_mode_the_journal_tells_what_dbus_shows() {
    for mode in Mode::ALL {
        live(mode).await;
    }
}

//! The text of `/metrics`: the figures of the engine, of the front ends and of this machine, in the order of the table.
//!
//! The figures are of all users together. Names, texts and figures of single users are not among them.

use super::machine::Machine;
use super::text::Text;
use super::{board, table};
use crate::engine::{Handle, Priority, Snapshot, State, Status};
use crate::http::shared::Shared;
use crate::http::traffic::Traffic;
use crate::telemetry::Proposer;

/// The states of the daemon.
const STATES: [State; 5] = [
    State::Loading,
    State::Ready,
    State::Idle,
    State::Failed,
    State::Stopping,
];
/// The states of the decode graph, as the property `GraphState` names them.
const GRAPH_STATES: [&str; 5] = ["none", "invalid", "recording", "valid", "disabled"];

/// Returns the whole text.
pub(super) fn page(shared: &Shared, machine: &Machine) -> String {
    let front = &shared.front;
    let engine = front.engine();
    let status = engine.status().borrow();
    let live = engine.live();
    let mut text = Text::default();
    model(&mut text, &status);
    requests(&mut text, engine, &front.refusals(), &live);
    http(&mut text, &shared.traffic);
    tokens(&mut text, engine, &live);
    cache(&mut text, &live);
    sessions_and_images(&mut text, engine, &status, &live);
    graph(&mut text, &status, &live);
    memory(&mut text, &status, machine);
    board::board(&mut text, &machine.board, engine.board());
    text.finish()
}

/// Adds a sample for each value of the only label.
fn labelled<V: std::fmt::Display>(
    text: &mut Text,
    metric: &table::Metric,
    samples: impl IntoIterator<Item = (&'static str, V)>,
) {
    text.begin(metric);
    for (label, value) in samples {
        text.sample(metric, &[label], value);
    }
}

fn model(text: &mut Text, status: &Status) {
    let cuda = if cfg!(feature = "cuda") {
        "true"
    } else {
        "false"
    };
    text.begin(&table::BUILD);
    text.sample(&table::BUILD, &[env!("CARGO_PKG_VERSION"), cuda], 1);
    text.begin(&table::MODEL);
    let model = &status.model;
    if !model.name.is_empty() {
        let labels = [
            &*model.name,
            &model.architecture,
            &model.quantization,
            model.kv.map_or("", |kv| kv.types.name()),
            &status.backend,
            &status.device,
        ];
        text.sample(&table::MODEL, &labels, 1);
    }
    let flags = STATES.iter();
    let flags = flags.map(|state| (state.name(), u8::from(*state == status.state)));
    labelled(text, &table::STATE, flags);
    #[allow(clippy::cast_precision_loss)] // at most 100
    let loaded = match status.state {
        State::Ready => 1.0,
        _ => status.loaded_percent.unwrap_or(0) as f64 / 100.0,
    };
    text.single(&table::LOADED, loaded);
}

fn requests(text: &mut Text, engine: &Handle, refusals: &[(&'static str, u64)], live: &Snapshot) {
    let ended = engine.totals().ended();
    let ended = ended.map(|(reason, count)| (reason.name(), count));
    labelled(text, &table::REQUESTS, ended);
    labelled(text, &table::REFUSALS, refusals.iter().copied());
    let waiting = engine.waiting();
    let waits = |priority: Priority| waiting.iter().filter(|(of, _)| *of == priority).count();
    let accepted = Priority::ALL.into_iter().zip(engine.accepted());
    let running = accepted.map(|(priority, all)| {
        let running = (all as usize).saturating_sub(waits(priority));
        (priority.name(), running)
    });
    labelled(text, &table::RUNNING, running);
    let waiting = Priority::ALL.map(|priority| (priority.name(), waits(priority)));
    labelled(text, &table::WAITING, waiting);
    text.single(&table::SUSPENDED, live.work.suspended);
    text.single(&table::HOLDS, engine.holds().len());
}

fn http(text: &mut Text, traffic: &Traffic) {
    text.single(&table::HTTP_CONNECTIONS, traffic.connections());
    text.begin(&table::HTTP_RESPONSES);
    for (status, count) in traffic.responses() {
        text.sample(&table::HTTP_RESPONSES, &[&status.to_string()], count);
    }
}

fn tokens(text: &mut Text, engine: &Handle, live: &Snapshot) {
    let totals = engine.totals();
    for (metric, count) in [
        (&table::PROMPT_TOKENS, &totals.prompt_tokens),
        (&table::CACHED_TOKENS, &totals.cached_tokens),
        (&table::RESTORED_TOKENS, &totals.restored_tokens),
        (&table::REREAD_TOKENS, &totals.reread_tokens),
        (&table::GENERATED_TOKENS, &totals.generated_tokens),
    ] {
        text.single(metric, count.get());
    }
    text.begin(&table::GUESSED_TOKENS);
    for proposer in Proposer::USUAL {
        let counts = live.proposals.of(proposer);
        let rejected = counts.proposed - counts.accepted;
        for (outcome, count) in [("accepted", counts.accepted), ("rejected", rejected)] {
            let labels = [proposer.name(), outcome];
            text.sample(&table::GUESSED_TOKENS, &labels, count);
        }
    }
    text.single(&table::PREFILL_TOKENS, totals.prefill.tokens.get());
    text.single(&table::PREFILL_SECONDS, totals.prefill.seconds());
    text.single(&table::DECODE_TOKENS, totals.decode.tokens.get());
    text.single(&table::DECODE_SECONDS, totals.decode.seconds());
    for (metric, histogram) in [
        (&table::QUEUE, &totals.queue),
        (&table::FIRST_TOKEN, &totals.first_token),
        (&table::BETWEEN_TOKENS, &totals.between_tokens),
        (&table::WHOLE, &totals.whole),
    ] {
        text.histogram(metric, &histogram.read());
    }
}

fn cache(text: &mut Text, live: &Snapshot) {
    let work = &live.work;
    let [all, free, allocated] = work.pages;
    text.single(&table::PAGES, all);
    text.single(&table::PAGES_USED, all.saturating_sub(free));
    text.single(&table::PAGES_ALLOCATED, allocated);
    text.single(&table::PAGES_IN_HOST, work.pages_in_host);
    text.single(&table::EVICTIONS, work.evictions);
    let lost = work.lost_states;
    let lost = [("idle", lost.idle), ("continued", lost.continued)];
    labelled(text, &table::LOST_STATES, lost);
}

fn sessions_and_images(text: &mut Text, engine: &Handle, status: &Status, live: &Snapshot) {
    text.single(&table::SESSIONS, status.sessions);
    text.single(&table::COMMITS, engine.commits().count);
    let images = live.images;
    let sources = [("encoded", images.encoded), ("cached", images.reused)];
    labelled(text, &table::IMAGES, sources);
    text.single(&table::IMAGE_CACHE, images.cache_bytes);
}

fn graph(text: &mut Text, status: &Status, live: &Snapshot) {
    let graph = &live.graph;
    let flags = GRAPH_STATES.map(|state| (state, u8::from(state == status.graph_state)));
    labelled(text, &table::GRAPH_STATE, flags);
    text.single(&table::GRAPH_NODES, graph.nodes);
    text.single(&table::GRAPH_EPOCH, graph.epoch);
    let counters = &graph.counters;
    let events = [
        ("recorded", counters.recordings),
        ("verified", counters.verified),
        ("updated", counters.updates),
        ("instantiated", counters.instantiations),
        ("refused", counters.failures),
    ];
    labelled(text, &table::GRAPH_EVENTS, events);
    let steps = [
        ("replayed", counters.launches),
        ("eager", counters.eager_steps),
    ];
    labelled(text, &table::GRAPH_STEPS, steps);
    text.single(&table::PROMPT_GRAPHS, graph.prompts.held);
    let events = [
        ("recorded", graph.prompts.recordings),
        ("replayed", graph.prompts.launches),
    ];
    labelled(text, &table::PROMPT_GRAPH_EVENTS, events);
}

fn memory(text: &mut Text, status: &Status, machine: &Machine) {
    let memory = &status.memory;
    let kinds = [
        ("weights", memory.weights),
        ("kv", memory.kv),
        ("states", memory.states),
        ("activations", memory.activations),
    ];
    labelled(text, &table::MEMORY, kinds);
    text.begin(&table::RESIDENT);
    if let Some(bytes) = machine.resident {
        text.sample(&table::RESIDENT, &[], bytes);
    }
}

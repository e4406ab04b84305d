//! The table of metrics: the name, the type, the labels and the meaning of each. `/metrics` and the manual have the same.

/// What a metric measures over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only becomes larger, until the daemon restarts or, for some, another model is loaded.
    Counter,
    Gauge,
    /// Durations by size, in seconds.
    Histogram,
}

impl Kind {
    /// Returns its name in Prometheus' text format.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric: one value, or one for each combination of its labels' values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    /// The names of the labels, besides a histogram's `le`.
    pub labels: &'static [&'static str],
    /// One sentence about the value, without a line break.
    pub help: &'static str,
}

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric {
        name,
        kind: Kind::Counter,
        labels,
        help,
    }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric {
        name,
        kind: Kind::Gauge,
        labels,
        help,
    }
}

const fn histogram(name: &'static str, help: &'static str) -> Metric {
    Metric {
        name,
        kind: Kind::Histogram,
        labels: &[],
        help,
    }
}

pub(super) const BUILD: Metric = gauge(
    "ganglion_build_info",
    &["version", "cuda"],
    "1, with the version of gangliond and whether it was built with CUDA.",
);
pub(super) const MODEL: Metric = gauge(
    "ganglion_model_info",
    &[
        "name",
        "architecture",
        "quantization",
        "kv_type",
        "backend",
        "device",
    ],
    "1, with the loaded model and the device that computes; absent without a model.",
);
pub(super) const STATE: Metric = gauge(
    "ganglion_state",
    &["state"],
    "1 for the state of the daemon, 0 for the other states.",
);
pub(super) const LOADED: Metric = gauge(
    "ganglion_loaded_ratio",
    &[],
    "Share of the weights that a load at the start has read, from 0 to 1; 1 once the model answers.",
);
pub(super) const REQUESTS: Metric = counter(
    "ganglion_requests_total",
    &["finish_reason"],
    "Requests that have ended, on D-Bus and HTTP together.",
);
pub(super) const REFUSALS: Metric = counter(
    "ganglion_refusals_total",
    &["limit"],
    "Calls that were refused because a limit was reached, by the key that sets the limit.",
);
pub(super) const RUNNING: Metric = gauge(
    "ganglion_requests_running",
    &["priority"],
    "Requests that have left the queue and not ended, suspended ones included.",
);
pub(super) const WAITING: Metric = gauge(
    "ganglion_requests_waiting",
    &["priority"],
    "Requests in the queue.",
);
pub(super) const SUSPENDED: Metric = gauge(
    "ganglion_requests_suspended",
    &[],
    "Running requests that have no slot at the moment, because of more urgent ones or of a hold.",
);
pub(super) const HOLDS: Metric = gauge(
    "ganglion_holds",
    &[],
    "Active holds, of background requests or of all requests.",
);
pub(super) const HTTP_CONNECTIONS: Metric = gauge(
    "ganglion_http_connections",
    &[],
    "Open connections to the HTTP sockets.",
);
pub(super) const HTTP_RESPONSES: Metric = counter(
    "ganglion_http_responses_total",
    &["status"],
    "HTTP responses by status, refused connections included.",
);
pub(super) const PROMPT_TOKENS: Metric = counter(
    "ganglion_prompt_tokens_total",
    &[],
    "Tokens of the prompts of ended requests, history included.",
);
pub(super) const CACHED_TOKENS: Metric = counter(
    "ganglion_prompt_cached_tokens_total",
    &[],
    "Tokens of these prompts that were in the cache.",
);
pub(super) const RESTORED_TOKENS: Metric = counter(
    "ganglion_prompt_restored_tokens_total",
    &[],
    "Tokens of these prompts whose pages were restored from the disk or from the host's memory.",
);
pub(super) const REREAD_TOKENS: Metric = counter(
    "ganglion_prompt_reread_tokens_total",
    &[],
    "Tokens that had been in the cache, lost their pages, and were prefilled again.",
);
pub(super) const GENERATED_TOKENS: Metric = counter(
    "ganglion_generated_tokens_total",
    &[],
    "Tokens of answers, counted when they are chosen.",
);
pub(super) const GUESSED_TOKENS: Metric = counter(
    "ganglion_guessed_tokens_total",
    &["proposer", "outcome"],
    "Tokens that steps guessed (engine.guess), by what guessed them, and by whether the model chose them.",
);
pub(super) const PREFILL_TOKENS: Metric = counter(
    "ganglion_prefill_tokens_total",
    &[],
    "Tokens of prompts that were computed. Divided by the seconds it is the speed of prefill.",
);
pub(super) const PREFILL_SECONDS: Metric = counter(
    "ganglion_prefill_seconds_total",
    &[],
    "Time in which prompts were computed.",
);
pub(super) const DECODE_TOKENS: Metric = counter(
    "ganglion_decode_tokens_total",
    &[],
    "Tokens of all rows of steps between which nothing else ran. Divided by the seconds it is the speed of decoding.",
);
pub(super) const DECODE_SECONDS: Metric =
    counter("ganglion_decode_seconds_total", &[], "Time of these steps.");
pub(super) const QUEUE: Metric = histogram(
    "ganglion_queue_seconds",
    "Time from the acceptance of a request to the start of its prefill.",
);
pub(super) const FIRST_TOKEN: Metric = histogram(
    "ganglion_first_token_seconds",
    "Time from the acceptance of a request to its first token.",
);
pub(super) const BETWEEN_TOKENS: Metric = histogram(
    "ganglion_between_tokens_seconds",
    "Time from one token of an answer to the next.",
);
pub(super) const WHOLE: Metric = histogram(
    "ganglion_request_seconds",
    "Time from the acceptance of a request to its end.",
);
pub(super) const PAGES: Metric = gauge(
    "ganglion_cache_pages",
    &[],
    "Pages of the cache; 0 without a model.",
);
pub(super) const PAGES_USED: Metric = gauge(
    "ganglion_cache_pages_used",
    &[],
    "Pages that hold tokens or are reserved for a running request.",
);
pub(super) const PAGES_ALLOCATED: Metric = gauge(
    "ganglion_cache_pages_allocated",
    &[],
    "Pages that have memory.",
);
pub(super) const PAGES_IN_HOST: Metric = gauge(
    "ganglion_cache_pages_in_host",
    &[],
    "Pages of idle sessions that are copied to the host's memory.",
);
pub(super) const EVICTIONS: Metric = counter(
    "ganglion_cache_evictions_total",
    &[],
    "Conversations that lost their pages to others since the model was loaded.",
);
pub(super) const LOST_STATES: Metric = counter(
    "ganglion_lost_states_total",
    &["slot"],
    "Recurrent states that slots lost to others since the model was loaded: of idle slots, and of turns that continue later.",
);
pub(super) const SESSIONS: Metric = gauge("ganglion_sessions", &[], "Open sessions.");
pub(super) const COMMITS: Metric = counter(
    "ganglion_session_commits_total",
    &[],
    "Writes of turns of persistent sessions to the disk.",
);
pub(super) const IMAGES: Metric = counter(
    "ganglion_images_total",
    &["source"],
    "Images of requests that the vision tower encoded, and those whose embeddings were in the image cache.",
);
pub(super) const IMAGE_CACHE: Metric = gauge(
    "ganglion_image_cache_bytes",
    &[],
    "Memory of embeddings and their images in the image cache.",
);
pub(super) const GRAPH_STATE: Metric = gauge(
    "ganglion_graph_state",
    &["state"],
    "1 for the state of the decode graph, 0 for the other states.",
);
pub(super) const GRAPH_NODES: Metric = gauge(
    "ganglion_graph_nodes",
    &[],
    "Kernels of one replay of the decode graph.",
);
pub(super) const GRAPH_EPOCH: Metric = counter(
    "ganglion_graph_cache_changes_total",
    &[],
    "Changes of the cache, each of which invalidates the decode graph until it is verified.",
);
pub(super) const GRAPH_EVENTS: Metric = counter(
    "ganglion_graph_events_total",
    &["event"],
    "Recordings, verifications without a changed address, updates in place, instantiations, and calls that the driver refused.",
);
pub(super) const GRAPH_STEPS: Metric = counter(
    "ganglion_graph_steps_total",
    &["how"],
    "Steps that were replayed as a graph, and those that ran operation by operation.",
);
pub(super) const PROMPT_GRAPHS: Metric = gauge(
    "ganglion_prompt_graphs",
    &[],
    "Recorded short prompts in memory.",
);
pub(super) const PROMPT_GRAPH_EVENTS: Metric = counter(
    "ganglion_prompt_graph_events_total",
    &["event"],
    "Recordings and replays of short prompts.",
);
pub(super) const MEMORY: Metric = gauge(
    "ganglion_memory_bytes",
    &["kind"],
    "Memory of the model by kind, on the device that computes.",
);
pub(super) const RESIDENT: Metric = gauge(
    "ganglion_resident_memory_bytes",
    &[],
    "Memory of gangliond that is resident, as the kernel counts it.",
);
pub(super) const TEMPERATURE: Metric = gauge(
    "ganglion_temperature_celsius",
    &["zone", "type"],
    "Temperature of a thermal zone of the board; absent where the kernel shows none.",
);

pub(super) const POWER_MODE: Metric = gauge(
    "ganglion_power_mode_info",
    &["id", "name"],
    "1, with the power mode that nvpmodel has set; absent on other boards.",
);
pub(super) const INPUT_POWER: Metric = gauge(
    "ganglion_input_power_watts",
    &[],
    "Power of the module's input; absent without a sensor.",
);
pub(super) const RAIL_POWER: Metric = gauge(
    "ganglion_rail_power_watts",
    &["rail"],
    "Power of a rail of the module; absent without a sensor.",
);
pub(super) const ENERGY: Metric = counter(
    "ganglion_energy_joules_total",
    &[],
    "Energy of the module's input while requests were answered; absent without a sensor.",
);
pub(super) const CLOCK: Metric = gauge(
    "ganglion_clock_hertz",
    &["clock", "kind"],
    "Clock of the GPU and of the cores that are limited most: now, the cap at present, and the highest of the hardware.",
);
pub(super) const THROTTLED: Metric = counter(
    "ganglion_throttle_events_total",
    &["cause"],
    "How often the supply has lowered the clocks since the board has booted; absent on other boards.",
);
pub(super) const SLOWED: Metric = gauge(
    "ganglion_decoding_slowed",
    &["cause"],
    "1 for each cause that slows decoding down, as the journal reports it.",
);
pub(super) const ROW_LIMIT: Metric = gauge(
    "ganglion_heat_row_limit",
    &[],
    "Most rows of a step on a hot board (heat.celsius); absent while it is not hot.",
);

/// All metrics, in the order of `/metrics`.
pub const METRICS: &[Metric] = &[
    BUILD,
    MODEL,
    STATE,
    LOADED,
    REQUESTS,
    REFUSALS,
    RUNNING,
    WAITING,
    SUSPENDED,
    HOLDS,
    HTTP_CONNECTIONS,
    HTTP_RESPONSES,
    PROMPT_TOKENS,
    CACHED_TOKENS,
    RESTORED_TOKENS,
    REREAD_TOKENS,
    GENERATED_TOKENS,
    GUESSED_TOKENS,
    PREFILL_TOKENS,
    PREFILL_SECONDS,
    DECODE_TOKENS,
    DECODE_SECONDS,
    QUEUE,
    FIRST_TOKEN,
    BETWEEN_TOKENS,
    WHOLE,
    PAGES,
    PAGES_USED,
    PAGES_ALLOCATED,
    PAGES_IN_HOST,
    EVICTIONS,
    LOST_STATES,
    SESSIONS,
    COMMITS,
    IMAGES,
    IMAGE_CACHE,
    GRAPH_STATE,
    GRAPH_NODES,
    GRAPH_EPOCH,
    GRAPH_EVENTS,
    GRAPH_STEPS,
    PROMPT_GRAPHS,
    PROMPT_GRAPH_EVENTS,
    MEMORY,
    RESIDENT,
    TEMPERATURE,
    POWER_MODE,
    INPUT_POWER,
    RAIL_POWER,
    ENERGY,
    CLOCK,
    THROTTLED,
    SLOWED,
    ROW_LIMIT,
];

//! The configuration as it was typed: the known keys, without the meaning of their values.

use serde::Deserialize;
use toml::{Spanned, Value};

use super::error::Fault;

/// A value of any type with its place in the text, if the key is present.
pub(super) type Typed = Option<Spanned<Value>>;

/// Merges a later file into an earlier one, key by key.
pub(super) trait Merge {
    /// Replaces values by those of `over`, whose places are shifted by `offset`.
    fn merge(&mut self, over: Self, offset: usize);
}

impl Merge for Typed {
    fn merge(&mut self, over: Self, offset: usize) {
        if let Some(over) = over {
            let span = over.span();
            let place = span.start + offset..span.end + offset;
            *self = Some(Spanned::new(place, over.into_inner()));
        }
    }
}

/// Declares sections. An unknown key is an error that lists the known ones.
macro_rules! sections {
    ($($name:ident: $expecting:literal { $($(#[$attribute:meta])* $key:ident: $type:ty),* })*) => {$(
        #[derive(Default, Deserialize)]
        #[serde(deny_unknown_fields, default, expecting = $expecting)]
        pub(super) struct $name {
            $($(#[$attribute])* pub(super) $key: $type,)*
        }

        impl Merge for $name {
            fn merge(&mut self, over: Self, offset: usize) {
                $(self.$key.merge(over.$key, offset);)*
            }
        }
    )*};
}

sections! {
    Document: "keys and sections" {
        backend: Typed, model: Model, draft: Draft, kv: Kv, graph: Graph, memory: Memory, device: Device, cpu: Cpu,
        engine: Engine, queue: Queue, hold: Hold, heat: Heat, idle: Idle, reload: Reload, limits: Limits, vision: Vision, sessions: Sessions, sampling: Sampling,
        stream: Stream, http: Http, stop: Stop, watchdog: Watchdog, log: Log
    }
    Model: "the section [model]" { path: Typed, vision: Typed, chat_template: Typed, thinking: Typed, tool_formats: Typed }
    Draft: "the section [draft]" { model: Typed }
    Kv: "the section [kv]" { #[serde(rename = "type")] element: Typed, #[serde(rename = "type_k")] key: Typed,
        #[serde(rename = "type_v")] value: Typed, context: Typed, memory_mib: Typed, reuse: Typed, slots: Typed,
        host_mib: Typed, disk_mib: Typed, disk_writes_mib_per_day: Typed, spill_after_seconds: Typed, stop_seconds: Typed }
    Graph: "the section [graph]" {
        mode: Typed, capture_sizes: Typed, prompt_graphs: Typed, prompt_mib: Typed,
        record_at_start: Typed, debug: GraphDebug
    }
    GraphDebug: "the section [graph.debug]" { verify_addresses: Typed, refuse_launches: Typed }
    Memory: "the section [memory]" { weights: Typed, kv: Typed, reserve_mib: Typed, keep_free_mib: Typed }
    Device: "the section [device]" { activations: Typed, emulate_tegra: Typed }
    Cpu: "the section [cpu]" { threads: Typed, activations: Typed }
    Engine: "the section [engine]" {
        rows: Typed, prefill_chunk: Typed, prefill_slice_ms: Typed, prefill_share: Typed, spin_us: Typed,
        guess: Typed, guess_tokens: Typed
    }
    Hold: "the section [hold]" { max_seconds: Typed }
    Idle: "the section [idle]" { unload_seconds: Typed }
    Heat: "the section [heat]" { celsius: Typed, rows: Typed }
    Reload: "the section [reload]" { drain_seconds: Typed }
    Queue: "the section [queue]" { capacity: Typed }
    Limits: "the section [limits]" {
        requests: Typed, requests_per_user: Typed, queue_percent_per_user: Typed, kv_percent_per_user: Typed,
        sessions: Typed, sessions_per_user: Typed, max_tokens: Typed, grammar_bytes: Typed, grammar_work: Typed,
        grammar_seconds: Typed, mask_seconds: Typed, realtime_group: Typed
    }
    Vision: "the section [vision]" {
        max_pixels: Typed, max_tokens: Typed, max_images: Typed, cache_mib: Typed
    }
    Sessions: "the section [sessions]" {
        directory: Typed, durability: Typed, per_user: Typed, mib_per_user: Typed
    }
    Sampling: "the section [sampling]" {
        temperature: Typed, top_k: Typed, top_p: Typed, min_p: Typed, repetition_penalty: Typed,
        from_model: Typed, seed: Typed, max_tokens: Typed
    }
    Stream: "the section [stream]" { stall_seconds: Typed }
    Http: "the section [http]" { key_file: Typed, max_body_mib: Typed, users: Typed }
    Stop: "the section [stop]" { grace_seconds: Typed }
    Watchdog: "the section [watchdog]" { stall_seconds: Typed }
    Log: "the section [log]" { level: Typed }
}

impl Document {
    pub(super) fn parse(text: &str) -> Result<Self, Fault> {
        toml::from_str(text).map_err(|error| Fault {
            at: error.span().map_or(0, |span| span.start),
            // The manual says "key" where the crate says "field".
            message: error.message().replace("unknown field", "unknown key"),
            quote: true,
        })
    }
}

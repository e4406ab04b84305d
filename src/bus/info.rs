//! Encodes facts of the engine as dictionaries, `a{sv}`.

use std::time::UNIX_EPOCH;

use zbus::{Array, OwnedVariant, Str};

use super::error;
use super::proxy::Info;
use crate::engine::{
    ActiveHold, Commits, ConnectionName, GraphStatus, Listed, ModelInfo, Outcome, Priority,
    Receipt, Snapshot, Status, Usage, Work,
};
use crate::runner::{KindTime, KvSelection, MemoryUse};
use crate::sampler::Partial;
use crate::telemetry::{Percentiles, Proposer, decimal};
use crate::tools;

fn text(text: &str) -> OwnedVariant {
    Str::from(text).into()
}

fn info<const N: usize>(entries: [(&str, OwnedVariant); N]) -> Info {
    entries
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

pub(super) fn model(model: &ModelInfo) -> Info {
    info([
        ("name", text(&model.name)),
        ("architecture", text(&model.architecture)),
        ("path", text(&model.path)),
        ("layers", model.layers.into()),
        ("hidden", model.hidden.into()),
        ("vocabulary", model.vocabulary.into()),
        ("context", model.context.into()),
        ("kv_type", text(model.kv.map_or("", |kv| kv.types.name()))),
        ("weight_bytes", model.weight_bytes.into()),
        ("parameters", model.parameters.into()),
        ("quantization", text(&model.quantization)),
        ("trained_context", model.trained_context.into()),
        ("thinking", model.thinking.into()),
        ("images", model.images.into()),
        ("draft", text(&model.draft)),
        ("head", model.head.into()),
        ("tools", text(&model.tools)),
        ("template", text(&model.template)),
        ("sampling", recommended(&model.sampling).into()),
    ])
}

/// Returns the values that a model recommends.
fn recommended(sampling: &Partial) -> Info {
    let real = |value: Option<f32>| value.map(|value| decimal(value).into());
    let values = [
        ("temperature", real(sampling.temperature)),
        ("top_k", sampling.top_k.map(OwnedVariant::from)),
        ("top_p", real(sampling.top_p)),
        ("min_p", real(sampling.min_p)),
        ("repetition_penalty", real(sampling.repetition_penalty)),
    ];
    let set = values.into_iter();
    set.filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

pub(super) fn memory(memory: &MemoryUse, kv: Option<&KvSelection>) -> Info {
    let mut info = info([
        ("weights", memory.weights.into()),
        ("kv", memory.kv.into()),
        ("states", memory.states.into()),
        ("activations", memory.activations.into()),
    ]);
    if let Some(kv) = kv {
        let [k, v] = kv.names();
        for (name, value) in [
            ("kv_type_k", k),
            ("kv_type_v", v),
            ("kv_reason", kv.reason.name()),
        ] {
            info.insert(name.to_owned(), text(value));
        }
        if let Some(delta) = kv.key_delta {
            info.insert("kv_key_delta".to_owned(), delta.into());
        }
    }
    info
}

pub(super) fn usage(usage: &Usage) -> Info {
    let mut info = info([
        ("prompt_tokens", usage.prompt_tokens.into()),
        ("cached_tokens", usage.cached_tokens.into()),
        ("completion_tokens", usage.completion_tokens.into()),
        ("queue_us", usage.queue_us.into()),
        ("first_token_us", usage.first_token_us.into()),
        ("tokens_per_second", usage.tokens_per_second.into()),
        ("gigabytes_per_second", usage.gigabytes_per_second.into()),
        ("seed", usage.seed.into()),
    ]);
    let rare = [
        ("restored", usage.restored),
        ("reread_tokens", usage.reread_tokens),
        ("repeated_steps", usage.repeated_steps),
        ("proposed_tokens", usage.proposed_tokens),
        ("accepted_tokens", usage.accepted_tokens),
        ("dropped_turns", usage.dropped_turns),
        ("lost_images", usage.lost_images),
    ];
    for (name, count) in rare.into_iter().filter(|(_, count)| *count > 0) {
        info.insert(name.to_owned(), count.into());
    }
    if let Some(proposer) = usage.proposer {
        info.insert("proposer".to_owned(), text(proposer.name()));
    }
    if usage.proposals.are_mixed() {
        for (proposer, counts) in usage.proposals.guessed() {
            let name = proposer.name();
            for (of, count) in [("proposed", counts.proposed), ("accepted", counts.accepted)] {
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                info.insert(format!("{of}_by_{name}"), count.into());
            }
        }
    }
    if let Some(joules) = usage.joules {
        info.insert("joules".to_owned(), joules.into());
    }
    if let Some(sampling) = usage.sampling {
        let sampling = self::info([
            ("temperature", sampling.temperature.into()),
            ("top_k", sampling.top_k.into()),
            ("top_p", sampling.top_p.into()),
            ("min_p", sampling.min_p.into()),
            ("repetition_penalty", sampling.repetition_penalty.into()),
        ]);
        info.insert("sampling".to_owned(), sampling.into());
    }
    info
}

/// Returns the end of a request: `finish_reason`, its usage, `incomplete`, and `error` with `message` if one ended it.
pub(super) fn outcome(outcome: &Outcome) -> Info {
    let mut info = usage(&outcome.usage);
    info.insert("finish_reason".to_owned(), text(outcome.reason.name()));
    if outcome.incomplete {
        info.insert("incomplete".to_owned(), true.into());
    }
    if !outcome.unchecked.is_empty()
        // The conversion fails only for descriptors.
        && let Ok(pointers) = Array::from(outcome.unchecked.clone()).try_into()
    {
        info.insert("unchecked".to_owned(), pointers);
    }
    if let Some((name, message)) = error::of_outcome(outcome) {
        info.insert("error".to_owned(), text(&name));
        info.insert("message".to_owned(), text(&message));
    }
    info
}

/// Returns the end of a request, with `reasoning`, and `tool_calls` as JSON.
pub(super) fn result(outcome: &Outcome) -> Info {
    let mut info = self::outcome(outcome);
    if !outcome.reasoning.is_empty() {
        info.insert("reasoning".to_owned(), text(&outcome.reasoning));
    }
    if !outcome.calls.is_empty() {
        let calls = tools::written(&outcome.calls).to_string();
        info.insert("tool_calls".to_owned(), text(&calls));
    }
    info
}

/// Returns the approximate bytes of the long parts of a result: reasoning and calls.
pub(super) fn bytes(outcome: &Outcome) -> usize {
    let calls = outcome.calls.iter().map(|call| call.arguments.len());
    outcome.reasoning.len() + calls.sum::<usize>()
}

/// Describes one of a user's sessions.
pub(super) fn listed(listed: &Listed) -> Info {
    let mut info = info([
        ("turns", listed.turns.into()),
        ("bytes", listed.bytes.into()),
        ("began", listed.began.into()),
        ("used", listed.used.into()),
        ("persistent", listed.persistent.into()),
    ]);
    let others = [
        ("holder", listed.holder.as_ref().map(ConnectionName::as_str)),
        ("error", listed.error.as_deref()),
    ];
    for (name, value) in others {
        if let Some(value) = value {
            info.insert(name.to_owned(), text(value));
        }
    }
    if !listed.damaged.is_empty()
        // The conversion fails only for descriptors.
        && let Ok(files) = Array::from(listed.damaged.clone()).try_into()
    {
        info.insert("damaged".to_owned(), files);
    }
    info
}

/// Returns the times of steps and commits, counts of images, and the cost of the last finished request.
pub(super) fn timing(live: &Snapshot, commits: Commits, receipt: Option<Receipt>) -> Info {
    let Commits { count, p50, p99 } = commits;
    let guesses = live.proposals.all();
    #[allow(clippy::cast_precision_loss)] // at most a minute
    let mut info = info([
        ("tokens", live.tokens.into()),
        ("steps", live.timing.steps().into()),
        ("guesses", guesses.proposed.into()),
        ("guesses_accepted", guesses.accepted.into()),
        ("commits", count.into()),
        ("commit_p50_us", (p50 as f64).into()),
        ("commit_p99_us", (p99 as f64).into()),
        ("images_encoded", live.images.encoded.into()),
        ("images_reused", live.images.reused.into()),
        ("image_cache_bytes", live.images.cache_bytes.into()),
    ]);
    for proposer in Proposer::USUAL {
        let (counts, name) = (live.proposals.of(proposer), proposer.name());
        info.insert(format!("guesses_of_{name}"), counts.proposed.into());
        info.insert(
            format!("guesses_of_{name}_accepted"),
            counts.accepted.into(),
        );
    }
    for (name, Percentiles { p50, p90, p99, max }) in live.timing.percentiles() {
        for (of, value) in [("p50", p50), ("p90", p90), ("p99", p99), ("max", max)] {
            info.insert(format!("{name}_{of}_us"), value.into());
        }
    }
    if live.timed_steps > 0 {
        info.insert("timed_steps".to_owned(), live.timed_steps.into());
        info.insert("operations".to_owned(), operations(&live.kinds).into());
    }
    if let Some(receipt) = receipt {
        info.extend(usage(&receipt.usage));
        // These are private to the caller of the request.
        info.remove("seed");
        info.remove("sampling");
        info.insert("finish_reason".to_owned(), text(receipt.reason.name()));
    }
    info
}

/// Returns the active and the queued requests.
pub(super) fn work(work: Work, waiting: &[(Priority, u32)], holds: &[ActiveHold]) -> Info {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let mut users: Vec<u32> = waiting.iter().map(|(_, user)| *user).collect();
    users.sort_unstable();
    users.dedup();
    let held = holds.iter().map(|hold| hold.held).max().unwrap_or_default();
    let reasons: Vec<_> = holds.iter().map(|hold| hold.reason.as_str()).collect();
    let mut info = info([
        ("rows", work.rows.into()),
        ("pages", work.pages[0].into()),
        ("pages_free", work.pages[1].into()),
        ("pages_allocated", work.pages[2].into()),
        ("pages_in_host", work.pages_in_host.into()),
        ("states_lost", work.lost_states.idle.into()),
        ("states_stored", work.lost_states.continued.into()),
        ("reading", work.reading.into()),
        ("suspended", work.suspended.into()),
        ("held", text(held.name())),
        ("waiting", count(waiting.len()).into()),
    ]);
    let lists = [
        ("waiting_users", Array::from(users)),
        ("holds", Array::from(reasons)),
    ];
    for (name, list) in lists {
        // The conversion fails only for descriptors.
        if let Ok(list) = list.try_into() {
            info.insert(name.to_owned(), list);
        }
    }
    for (priority, answered) in Priority::ALL.into_iter().zip(work.of) {
        let name = priority.name();
        let wait = waiting.iter().filter(|(of, _)| *of == priority).count();
        info.insert(name.to_owned(), answered.into());
        info.insert(format!("waiting_{name}"), count(wait).into());
    }
    info
}

/// Describes an active hold.
pub(super) fn hold(hold: &ActiveHold) -> Info {
    let since = hold.since.duration_since(UNIX_EPOCH).unwrap_or_default();
    info([
        ("held", text(hold.held.name())),
        ("user", hold.client.user.into()),
        ("connection", text(hold.client.name.as_str())),
        ("reason", text(&hold.reason)),
        ("since", since.as_secs().into()),
        ("seconds_left", hold.left().as_secs_f64().into()),
    ])
}

/// Returns a dictionary for each kind of operation of a step.
fn operations(kinds: &[KindTime]) -> Info {
    let of = |kind: &KindTime| {
        info([
            ("count", (kind.count as u64).into()),
            ("us", (kind.time.as_secs_f64() * 1e6).into()),
            ("bytes", kind.bytes.into()),
        ])
    };
    let named = kinds
        .iter()
        .map(|kind| (kind.name.clone(), of(kind).into()));
    named.collect()
}

pub(super) fn device(status: &Status) -> Info {
    info([
        ("backend", text(&status.backend)),
        ("description", text(&status.device)),
    ])
}

pub(super) fn decode_graph(graph: &GraphStatus) -> Info {
    info(graph_entries(graph))
}

/// Returns the keys of `decode_graph`, in the order in which people read them.
pub fn graph_keys() -> impl Iterator<Item = &'static str> {
    let entries = graph_entries(&GraphStatus::default());
    entries.into_iter().map(|(key, _)| key)
}

/// Names first, then figures.
fn graph_entries(graph: &GraphStatus) -> [(&'static str, OwnedVariant); 18] {
    // Empty: the engine has no graph, or none yet.
    let named = |name: &'static str| text(if name.is_empty() { "none" } else { name });
    let counters = &graph.counters;
    [
        ("state", named(graph.state)),
        ("mode", named(graph.mode)),
        ("reason", text(&graph.reason)),
        ("last_error", text(&graph.last_error)),
        ("epoch", graph.epoch.into()),
        ("nodes", graph.nodes.into()),
        ("recordings", counters.recordings.into()),
        ("verified", counters.verified.into()),
        ("updates", counters.updates.into()),
        ("instantiations", counters.instantiations.into()),
        ("recording_us", graph.recording_us.into()),
        ("launches", counters.launches.into()),
        ("eager_steps", counters.eager_steps.into()),
        ("failures", counters.failures.into()),
        (
            "failures_in_a_row",
            u64::from(graph.failures_in_a_row).into(),
        ),
        ("prompt_graphs", graph.prompts.held.into()),
        ("prompt_launches", graph.prompts.launches.into()),
        ("prompt_recordings", graph.prompts.recordings.into()),
    ]
}

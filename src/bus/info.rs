//! Writes `a{sv}`: what the engine tells, as dictionaries.

use zbus::{OwnedVariant, Str};

use super::proxy::Info;
use crate::engine::{Memory, ModelInfo, Outcome, Status, Usage};

use super::error;

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
        ("weight_bytes", model.weight_bytes.into()),
    ])
}

pub(super) fn memory(memory: &Memory) -> Info {
    info([
        ("weights", memory.weights.into()),
        ("kv", memory.kv.into()),
        ("activations", memory.activations.into()),
    ])
}

pub(super) fn usage(usage: &Usage) -> Info {
    info([
        ("prompt_tokens", usage.prompt_tokens.into()),
        ("cached_tokens", usage.cached_tokens.into()),
        ("completion_tokens", usage.completion_tokens.into()),
        ("queue_us", usage.queue_us.into()),
        ("first_token_us", usage.first_token_us.into()),
        ("tokens_per_second", usage.tokens_per_second.into()),
        ("gigabytes_per_second", usage.gigabytes_per_second.into()),
    ])
}

/// How a request ended: `finish_reason`, its usage, and `error` with `message` if one ended it.
pub(super) fn outcome(outcome: &Outcome) -> Info {
    let mut info = usage(&outcome.usage);
    info.insert("finish_reason".to_owned(), text(outcome.reason.name()));
    if let Some((name, message)) = error::of_outcome(outcome) {
        info.insert("error".to_owned(), text(&name));
        info.insert("message".to_owned(), text(&message));
    }
    info
}

/// What the last finished request cost; empty before the first.
pub(super) fn timing(status: &Status) -> Info {
    status.receipt.as_ref().map_or_else(Info::new, |receipt| {
        let mut info = usage(&receipt.usage);
        info.insert("finish_reason".to_owned(), text(receipt.reason.name()));
        info
    })
}

pub(super) fn device(status: &Status) -> Info {
    info([
        ("backend", text(&status.backend)),
        ("description", text(&status.device)),
    ])
}

/// This release tells nothing of a graph but whether its backend has one.
pub(super) fn decode_graph(status: &Status) -> Info {
    let (mode, reason) = if status.backend == "cuda" {
        (
            "full_decode_only",
            "recorded at the second step; its state is not published yet",
        )
    } else {
        ("none", "this backend runs every step eagerly")
    };
    info([
        ("state", text("none")),
        ("mode", text(mode)),
        ("reason", text(reason)),
    ])
}

//! The lists of options and errors in `org.ganglion.Llm1(5)`, rendered from the tables that the bus itself uses.

use ganglion::bus::{ERRORS, OPTIONS, Of, OptionKey};

use super::roff::list;

/// The options of calls that ask for an answer.
pub(super) fn of_requests() -> String {
    of(&[Of::Requests, Of::Streams, Of::Submissions])
}

/// The options of `OpenSession`.
pub(super) fn of_sessions() -> String {
    of(&[Of::Beginnings, Of::Sessions])
}

/// The options of `Complete` that requests do not have.
pub(super) fn of_completions() -> String {
    of(&[Of::Completions])
}

pub(super) fn errors() -> String {
    list(ERRORS)
}

fn of(calls: &[Of]) -> String {
    let keys = OPTIONS.iter().filter(|key| calls.contains(&key.of));
    let entries = keys.map(|key| {
        let OptionKey {
            name,
            kind,
            allowed,
            what,
            ..
        } = key;
        (
            format!("{name} ({kind})"),
            format!("{what} Allowed is {allowed}. Default: {}.", default(key)),
        )
    });
    let entries: Vec<_> = entries.collect();
    let entries: Vec<_> = entries
        .iter()
        .map(|(tag, what)| (tag.as_str(), what.as_str()))
        .collect();
    list(&entries)
}

/// What applies where a call does not give an option.
fn default(key: &OptionKey) -> &'static str {
    let is_of_turns = key.of == Of::Sessions
        && OPTIONS
            .iter()
            .any(|one| one.of == Of::Requests && one.name == key.name);
    if is_of_turns {
        return "that of a request";
    }
    match key.name {
        "max_tokens" => "sampling.max_tokens",
        "temperature" => "sampling.temperature, the model's recommendation, or 0",
        "top_k" => "sampling.top_k, the model's recommendation, or 0",
        "top_p" => "sampling.top_p, the model's recommendation, or 1",
        "min_p" => "sampling.min_p, the model's recommendation, or 0",
        "repetition_penalty" => "sampling.repetition_penalty, the model's recommendation, or 1",
        "seed" => "sampling.seed, or a fresh one",
        "schema_lenient" | "json" | "signals" | "take" | "keep_pictures" => "false",
        "parallel_tool_calls" | "persistent" => "true",
        "tool_choice" => "\"auto\"",
        "thinking" => "model.thinking, or the choice of the chat template",
        "priority" => "\"normal\"",
        "guess" => "true unless engine.guess is \"off\"",
        "stream" => "\"pipe\"",
        "context_overflow" => "\"error\"",
        _ => "none",
    }
}

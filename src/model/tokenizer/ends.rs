//! The tokens that end a turn or a text.

use super::definition::NamedEnd;

/// Spellings of tokens that end an answer in every model that has them: llama.cpp's list.
const SPELLINGS: [&str; 33] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
    // Tokens of code models that fill in gaps.
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<PAD>",
    "[PAD]",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<REPO>",
    "<reponame>",
    "<|file_sep|>",
];

/// Tokens of which the first does not end an answer if one of each of the others exists: a message ends, and the turn
/// goes on.
const WITHIN_A_TURN: [(&str, &[&[&str]]); 3] = [
    ("<|end|>", &[&["<|return|>"], &["<|call|>", "<|calls|>"]]),
    ("<|end|>", &[&["<|flush|>"], &["<|call|>", "<|calls|>"]]),
    ("</s>", &[&["<|tool_response>", "<|plamo:eos|>"]]),
];

/// Returns the spellings of tokens that end an answer in every model.
pub(super) fn usual() -> impl Iterator<Item = &'static str> {
    SPELLINGS.into_iter()
}

/// Returns the union of the end tokens that files name and of those with a usual spelling, ascending, and a sentence
/// for each named id without a token. `spelling` returns the spelling of a token, and `control` the id of a control
/// token.
pub(super) fn union<'a>(
    named: &[NamedEnd],
    spelling: impl Fn(u32) -> Option<&'a str>,
    control: impl Fn(&str) -> Option<u32>,
) -> (Vec<u32>, Vec<String>) {
    let mut ends = Vec::new();
    let mut notes = Vec::new();
    for NamedEnd { id, place } in named {
        if spelling(*id).is_some() {
            ends.push(*id);
        } else {
            notes.push(not_a_token(place, id));
        }
    }
    for end in usual().filter(|end| !is_within_a_turn(end, &control)) {
        ends.extend(control(end));
    }
    ends.sort_unstable();
    ends.dedup();
    (ends, notes)
}

/// Returns the sentence for an end token that is skipped.
pub(super) fn not_a_token(place: &str, value: &impl ToString) -> String {
    format!(
        "{place}: the end token {} is skipped, because no token of the vocabulary has this id or spelling",
        value.to_string()
    )
}

fn is_within_a_turn(end: &str, control: impl Fn(&str) -> Option<u32>) -> bool {
    let is_there = |spelling: &&str| control(spelling).is_some();
    let all = |others: &[&[&str]]| others.iter().all(|one| one.iter().any(&is_there));
    let mut rules = WITHIN_A_TURN.iter();
    rules.any(|(within, others)| *within == end && all(others))
}

//! Conversations that step together have the bits that each has alone, whichever of them take part in a step.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::error::TrialError;
use crate::kv::{Owner, Wanted};
use crate::runner::{RunError, Runner};
use crate::sampler::Parameters;

/// The lengths of the conversations' prompts.
pub const PROMPTS: [usize; 8] = [1, 2, 9, 63, 64, 65, 130, 200];
/// The conversations of each step: each number of rows, full and not.
const TOGETHER: [&[usize]; 8] = [
    &[0, 1, 2, 3, 4, 5, 6, 7],
    &[6, 2],
    &[0, 1, 2, 3, 4],
    &[7],
    &[3, 5, 4],
    &[1, 7, 6, 0],
    &[4, 2, 5, 3, 7, 6],
    &[0, 1, 2, 3, 4, 5, 6, 7],
];

/// The tokens of a conversation's steps, each with a hash of its logits.
pub type Steps = Vec<(u32, u64)>;

/// Compares conversations that step together with the same conversations alone, for about `steps` steps each. Returns the
/// number of compared rows. The runner has eight rows, eight conversations, and room for the longest prompt and `steps`.
///
/// # Errors
/// If a token or the bits of a row differ.
pub fn as_alone(runner: &mut Runner, steps: usize) -> Result<usize, TrialError> {
    let alone = alone(runner, steps)?;
    let entries = begin(runner)?;
    let mut together = vec![Steps::new(); PROMPTS.len()];
    let mut compared = 0;
    'all: loop {
        for (turn, conversations) in TOGETHER.iter().enumerate() {
            let rows: Vec<usize> = conversations.iter().map(|at| entries[*at]).collect();
            // Once with steps launched ahead, once without.
            let times = 1 + turn % 3;
            for step in 0..times {
                // The remaining ones use the step that was launched ahead for all.
                let ahead = step + 1 < times || turn == 0;
                let tokens = runner.step_rows(&rows, ahead)?;
                let hashes = hashes(runner, rows.len(), ahead)?;
                for ((conversation, token), hash) in conversations.iter().zip(tokens).zip(hashes) {
                    together[*conversation].push((token, hash));
                    compared += 1;
                }
            }
            if together.iter().any(|done| done.len() + 3 > steps) {
                break 'all;
            }
        }
    }
    for (conversation, (alone, together)) in alone.iter().zip(&together).enumerate() {
        for (step, (alone, together)) in alone.iter().zip(together).enumerate() {
            // A step that was launched ahead has overwritten the logits, so only tokens are compared.
            let same = alone.0 == together.0 && (alone.1 == together.1 || together.1 == 0);
            if !same {
                return Err(TrialError::Wrong(format!(
                    "conversation {conversation}, step {step}: {together:?} together, {alone:?} alone"
                )));
            }
        }
    }
    entries.iter().for_each(|entry| runner.leave(*entry));
    Ok(compared)
}

/// Returns that many steps of each conversation alone.
pub fn alone(runner: &mut Runner, steps: usize) -> Result<Vec<Steps>, RunError> {
    let entries = begin(runner)?;
    let mut alone = vec![Steps::new(); PROMPTS.len()];
    for (conversation, done) in alone.iter_mut().enumerate() {
        for _ in 0..steps {
            let tokens = runner.step_rows(&[entries[conversation]], false)?;
            done.push((tokens[0], hashes(runner, 1, false)?[0]));
        }
    }
    entries.iter().for_each(|entry| runner.leave(*entry));
    Ok(alone)
}

/// Starts all conversations, half of them greedy, and returns their slots.
fn begin(runner: &mut Runner) -> Result<Vec<usize>, RunError> {
    let mut entries = Vec::new();
    for (conversation, length) in (0..).zip(PROMPTS) {
        let parameters = parameters(conversation);
        entries.push(begin_one(runner, conversation, length, parameters)?);
    }
    Ok(entries)
}

/// The parameters of a conversation: each second one is greedy.
#[must_use]
pub fn parameters(conversation: u32) -> Parameters {
    Parameters {
        temperature: if conversation.is_multiple_of(2) {
            0.0
        } else {
            0.9
        },
        top_p: 0.95,
        repetition_penalty: 1.1,
        seed: u64::from(conversation),
        ..Parameters::default()
    }
}

/// Starts a conversation again, which keeps its pages until it leaves. Returns its slot.
pub fn begin_one(
    runner: &mut Runner,
    conversation: u32,
    length: usize,
    parameters: Parameters,
) -> Result<usize, RunError> {
    let vocabulary = u32::try_from(runner.shape().vocabulary).unwrap_or(u32::MAX);
    let tokens = (0_u32..).take(length);
    let prompt: Vec<u32> = tokens
        .map(|at| (at * 37 + 11 * conversation + 5) % vocabulary)
        .collect();
    let owner = Owner(u64::from(conversation));
    runner.rewind(owner, 0)?;
    let (entry, cached) = runner.join(
        Some(owner),
        conversation,
        Wanted::without_answers(&prompt),
        parameters,
        runner.context(),
    )?;
    runner.prefill_all(&prompt[cached..])?;
    Ok(entry)
}

/// Returns a hash of each row's logits; 0 where a step launched ahead may have overwritten them.
pub fn hashes(runner: &mut Runner, rows: usize, ahead: bool) -> Result<Vec<u64>, RunError> {
    if ahead {
        return Ok(vec![0; rows]);
    }
    let columns = runner.shape().vocabulary;
    let logits = runner.row_logits(rows)?;
    let hash = |row: &[f32]| {
        let mut hasher = DefaultHasher::new();
        row.iter()
            .for_each(|value| value.to_bits().hash(&mut hasher));
        hasher.finish() | 1
    };
    Ok(logits.chunks_exact(columns).take(rows).map(hash).collect())
}

//! Conversations that step together have the bits that each has alone, whoever joins or leaves.

use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::ExitCode;

use ganglion::engine::runner::{Backend, Runner};
use ganglion::graph::Mode;
use ganglion::kv::Owner;
use ganglion::sampler::Parameters;
use ganglion::tape::Ending;

use super::Types;
use super::modes::load;

const STEPS: usize = 48;
const PROMPTS: [usize; 8] = [1, 2, 9, 63, 64, 65, 130, 200];
/// Who steps together, by turns: each number of rows, filled up and not.
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

/// What a conversation's steps left: each token, and a hash of the logits that it was chosen from.
type Steps = Vec<(u32, u64)>;

/// Prints a line for each model and type. `--cpu` tries it where there is no GPU.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let (backend, models) = match super::backend(arguments) {
        Ok(found) => found,
        Err(code) => return code,
    };
    let mut passed = true;
    for model in models {
        for types in super::TYPES {
            for mode in [Mode::None, Mode::FullDecodeOnly] {
                let outcome = compare(Path::new(model), backend, types, mode).and_then(|said| {
                    forced(Path::new(model), backend, types, mode)?;
                    Ok(said)
                });
                passed &= outcome.is_ok();
                let said = outcome.unwrap_or_else(|error| format!("FAILED: {error}"));
                let mode = mode.name();
                let (activations, cache) = (types.0.name(), types.1.name());
                println!("{model} {activations}, {cache} cache, {mode}: {said}");
            }
        }
    }
    super::verdict(passed)
}

fn compare(
    model: &Path,
    backend: Backend,
    types: Types,
    mode: Mode,
) -> Result<String, Box<dyn Error>> {
    let mut runner = load(model, backend, types, (mode, 64), PROMPTS.len())?;
    let regions = begin(&mut runner)?;
    let mut alone = vec![Steps::new(); PROMPTS.len()];
    for (conversation, steps) in alone.iter_mut().enumerate() {
        for _ in 0..STEPS {
            let tokens = runner.step_rows(&[regions[conversation]], false)?;
            steps.push((tokens[0], hashes(&mut runner, 1, false)?[0]));
        }
    }
    let regions = begin(&mut runner)?;
    let mut together = vec![Steps::new(); PROMPTS.len()];
    let mut compared = 0;
    'all: loop {
        for (turn, conversations) in TOGETHER.iter().enumerate() {
            let rows: Vec<usize> = conversations.iter().map(|at| regions[*at]).collect();
            // Once with steps launched ahead, once without.
            let steps = 1 + turn % 3;
            for step in 0..steps {
                let ahead = step + 1 < steps;
                let tokens = runner.step_rows(&rows, ahead)?;
                let hashes = hashes(&mut runner, rows.len(), ahead)?;
                for ((conversation, token), hash) in conversations.iter().zip(tokens).zip(hashes) {
                    together[*conversation].push((token, hash));
                    compared += 1;
                }
            }
            if together.iter().any(|steps| steps.len() + 3 > STEPS) {
                break 'all;
            }
        }
    }
    for (conversation, (alone, together)) in alone.iter().zip(&together).enumerate() {
        for (step, (alone, together)) in alone.iter().zip(together).enumerate() {
            // What was launched ahead has overwritten the logits: then tokens alone are compared.
            let same = alone.0 == together.0 && (alone.1 == together.1 || together.1 == 0);
            if !same {
                return Err(format!(
                    "conversation {conversation}, step {step}: {together:?} together, {alone:?} alone"
                )
                .into());
            }
        }
    }
    Ok(format!(
        "{compared} rows of {} conversations as alone",
        PROMPTS.len()
    ))
}

/// Holds tokens that are forced in one step to the bits of a step each, across the borders of pages and of the units that
/// positions are read in.
fn forced(model: &Path, backend: Backend, types: Types, mode: Mode) -> Result<(), Box<dyn Error>> {
    let mut runner = load(model, backend, types, (mode, 64), PROMPTS.len())?;
    for (length, count) in PROMPTS
        .into_iter()
        .flat_map(|at| [(at, 7), (at, 2), (at, 1)])
    {
        let tokens: Vec<u32> = (0..count).map(|at| (at * 91 + 13) % 512).collect();
        let greedy = Parameters::default();
        let region = begin_one(&mut runner, 0, length, greedy)?;
        let mut next = vec![runner.step_forced(region, &tokens)?];
        let mut at_once = hashes(&mut runner, 1 + tokens.len(), false)?;
        at_once.truncate(1 + tokens.len());
        next.extend(runner.step_rows(&[region], false)?);
        at_once.extend(hashes(&mut runner, 1, false)?);

        let region = begin_one(&mut runner, 0, length, greedy)?;
        let (mut alone, mut chosen) = (Vec::new(), Vec::new());
        for row in 0..=tokens.len() + 1 {
            chosen.extend(runner.step_rows(&[region], false)?);
            alone.extend(hashes(&mut runner, 1, false)?);
            if let Some(token) = tokens.get(row) {
                runner.post(*token);
            }
        }
        if alone != at_once || !chosen.ends_with(&next) {
            return Err(format!(
                "{count} tokens forced after {length}: {at_once:x?} in one step, {alone:x?} in as many"
            )
            .into());
        }
    }
    Ok(())
}

/// Begins all conversations, half of them greedy, and returns where they lie.
fn begin(runner: &mut Runner) -> Result<Vec<usize>, Box<dyn Error>> {
    let mut regions = Vec::new();
    for (conversation, length) in (0..).zip(PROMPTS) {
        let parameters = Parameters {
            temperature: if conversation % 2 == 0 { 0.0 } else { 0.9 },
            top_p: 0.95,
            repetition_penalty: 1.1,
            seed: u64::from(conversation),
            ..Parameters::default()
        };
        regions.push(begin_one(runner, conversation, length, parameters)?);
    }
    Ok(regions)
}

/// Begins one anew.
fn begin_one(
    runner: &mut Runner,
    conversation: u32,
    length: usize,
    parameters: Parameters,
) -> Result<usize, Box<dyn Error>> {
    let vocabulary = u32::try_from(runner.shape().vocabulary)?;
    let token = |at: u32| (at * 37 + 11 * conversation + 5) % vocabulary;
    let prompt: Vec<u32> = (0..u32::try_from(length)?).map(token).collect();
    let owner = Owner(u64::from(conversation));
    runner.rewind(owner, 0);
    let cached = runner.begin(Some(owner), conversation, &prompt, parameters)?;
    let chunks: Vec<&[u32]> = prompt[cached..].chunks(runner.prefill_chunk()).collect();
    for (at, chunk) in chunks.iter().enumerate() {
        let last = at + 1 == chunks.len();
        runner.prefill(chunk, if last { Ending::Token } else { Ending::Kv })?;
    }
    Ok(runner.slot())
}

/// Of each row's logits; 0 where a step launched ahead may have overwritten them.
fn hashes(runner: &mut Runner, rows: usize, ahead: bool) -> Result<Vec<u64>, Box<dyn Error>> {
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

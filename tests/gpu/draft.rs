//! A draft model: after tokens that its conversations did not follow, it chooses those that it chooses without them, next to other
//! conversations and to the model.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use ganglion::graph::Mode;
use ganglion::kv::Wanted;
use ganglion::load::Backend;
use ganglion::runner::{Runner, Trial};
use ganglion::sampler::Parameters;
use ganglion::tape::Ending;

use super::Types;
use super::modes::load;

/// The conversations of each draft model, and the first tokens that a prefill reads.
const CONVERSATIONS: usize = 3;
const PREFILLED: usize = 70;
const CHUNK: usize = 64;
const TOKENS: usize = 120;
const GUESSES: usize = 4;

/// Prints a line for each model and type. `--cpu` runs it without a GPU.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let (backend, models) = match super::backend(arguments) {
        Ok(found) => found,
        Err(code) => return code,
    };
    let mut passed = true;
    for model in models {
        for types in super::TYPES {
            for mode in [Mode::None, Mode::FullDecodeOnly] {
                let outcome = check(Path::new(model), backend, types, mode);
                passed &= outcome.is_ok();
                let said = outcome.unwrap_or_else(|error| format!("FAILED: {error}"));
                let (activations, cache) = (types.0.name(), types.1.name());
                let mode = mode.name();
                println!("{model} {activations}, {cache} cache, {mode}: {said}");
            }
        }
    }
    ExitCode::from(u8::from(!passed))
}

fn check(
    model: &Path,
    backend: Backend,
    types: Types,
    mode: Mode,
) -> Result<String, Box<dyn Error>> {
    let draft = &mut load(model, backend, types, (mode, CHUNK), 8)?;
    let alone = &mut load(model, backend, types, (mode, CHUNK), 8)?;
    let mut random = fastrand::Rng::with_seed(58);
    let texts: Vec<Vec<u32>> = (0..CONVERSATIONS)
        .map(|_| (0..TOKENS).map(|_| random.u32(0..256)).collect())
        .collect();
    let mut slots = Vec::new();
    for (user, text) in (1..).zip(&texts) {
        draft.attach_thread()?;
        slots.push(begin(draft, user, text)?);
    }
    let mut known = [PREFILLED + 1; CONVERSATIONS];
    let mut guesses = 0;
    while known.iter().all(|known| *known < TOKENS) {
        let trials = slots.iter().zip(&texts).zip(known);
        let trials = trials.map(|((slot, text), known)| Trial {
            slot: *slot,
            tokens: text[draft.len_of(*slot)..known].to_vec(),
            most: random.usize(1..=GUESSES),
        });
        let trials: Vec<_> = trials.collect();
        draft.attach_thread()?;
        let chosen = draft.draft(&trials)?;
        for ((user, text), (chosen, known)) in (11..).zip(&texts).zip(chosen.iter().zip(&mut known))
        {
            alone.attach_thread()?;
            let expected = fresh(alone, user, &text[..*known], chosen.len())?;
            if *chosen != expected {
                let said = format!("{chosen:?} after {known} tokens, and {expected:?} alone");
                return Err(said.into());
            }
            guesses += chosen.len();
            *known += random.usize(1..=2);
        }
    }
    Ok(format!("{guesses} guesses as without earlier ones"))
}

/// Reads the first tokens of a conversation.
fn begin(runner: &mut Runner, user: u32, text: &[u32]) -> Result<usize, Box<dyn Error>> {
    let first = &text[..PREFILLED];
    let wanted = Wanted::without_answers(first);
    let (slot, cached) = runner.join(None, user, wanted, Parameters::default(), 256)?;
    runner.turn_to(slot);
    for rows in first[cached..].chunks(CHUNK) {
        runner.prefill(rows, Ending::Kv)?;
    }
    Ok(slot)
}

/// Returns the tokens that follow a text in a conversation that has tried nothing.
fn fresh(
    runner: &mut Runner,
    user: u32,
    text: &[u32],
    most: usize,
) -> Result<Vec<u32>, Box<dyn Error>> {
    let slot = begin(runner, user, text)?;
    let mut chosen = Vec::new();
    while chosen.is_empty() {
        let next = &text[runner.len_of(slot)..];
        let last = next.len() <= 2;
        let tokens = next[..next.len().min(2)].to_vec();
        let most = if last { most } else { 1 };
        let mut tried = runner.draft(&[Trial { slot, tokens, most }])?;
        if last {
            chosen = tried.remove(0);
        }
    }
    runner.leave(slot);
    // Nothing of it is reused.
    runner.erase(user);
    Ok(chosen)
}

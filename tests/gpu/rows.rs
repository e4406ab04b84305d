//! Conversations that step together have the bits that each has alone, whichever others join or leave.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use ganglion::graph::Mode;
use ganglion::load::Backend;
use ganglion::sampler::{Mask, Parameters};
use ganglion::tape::STEP_ROWS;
use ganglion::trial::rows::{PROMPTS, alone, as_alone, begin_one, hashes, parameters};

use super::Types;
use super::modes::{load, load_with};
use super::{few_states, guessing, joining, preempted, restored};

const STEPS: usize = 48;

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
                let outcome = together(Path::new(model), backend, types, mode).and_then(|said| {
                    come_and_go(Path::new(model), backend, types, mode)?;
                    forced(Path::new(model), backend, types, mode)?;
                    guided(Path::new(model), backend, types, mode)?;
                    restored(Path::new(model), backend, types, mode)?;
                    let mut four = load_with(Path::new(model), backend, types, (mode, 64), (4, 4))?;
                    preempted::hold(&mut four)?;
                    let settings = (mode, 64);
                    let mut eight = load(Path::new(model), backend, types, settings, STEP_ROWS)?;
                    let guesses = guessing::hold(&mut eight)?;
                    let few = guesses.right < 50 || guesses.wrong < 50 || guesses.masked < 30;
                    if few || guesses.after_forced < 10 {
                        return Err(format!("few guesses: {guesses:?}").into());
                    }
                    let (_, left) = joining::hold(&mut eight)?;
                    if left < 8 && mode != Mode::None {
                        return Err(format!("{left} steps were left").into());
                    }
                    if eight.layout().is_recurrent() {
                        let mut many =
                            load_with(Path::new(model), backend, types, settings, (16, STEP_ROWS))?;
                        let lost = few_states::hold(&mut many)?;
                        if lost.idle < 8 || lost.continued < 8 {
                            return Err(format!("few states were lost: {lost:?}").into());
                        }
                    }
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

fn together(
    model: &Path,
    backend: Backend,
    types: Types,
    mode: Mode,
) -> Result<String, Box<dyn Error>> {
    let mut runner = load(model, backend, types, (mode, 64), PROMPTS.len())?;
    let compared = as_alone(&mut runner, STEPS)?;
    Ok(format!(
        "{compared} rows of {} conversations as alone",
        PROMPTS.len()
    ))
}

/// Conversations join and leave until this has happened before each step modulo 64, with each number of rows. Each
/// one's bits are as alone, greedy or sampled, also with steps launched ahead.
fn come_and_go(
    model: &Path,
    backend: Backend,
    types: Types,
    mode: Mode,
) -> Result<(), Box<dyn Error>> {
    const PERIOD: usize = 64;
    let mut runner = load(model, backend, types, (mode, 64), PROMPTS.len())?;
    let alone = alone(&mut runner, STEPS)?;
    let (mut step, mut met) = (0, [false; PERIOD]);
    // Each with its slot and its progress, the oldest first.
    let mut running: Vec<(usize, usize, usize)> = Vec::new();
    let mut next = 0;
    for round in 0.. {
        if !met.contains(&false) {
            break;
        }
        let rows = 1 + round * 5 % PROMPTS.len();
        while running.len() >= rows || running.iter().any(|(.., said)| said + 3 > STEPS) {
            let (_, entry, _) = running.remove(0);
            runner.leave(entry);
        }
        while running.len() < rows {
            let runs = |at: usize| running.iter().any(|(conversation, ..)| *conversation == at);
            while runs(next % PROMPTS.len()) {
                next += 1;
            }
            let conversation = next % PROMPTS.len();
            let (number, length) = (u32::try_from(conversation)?, PROMPTS[conversation]);
            let entry = begin_one(&mut runner, number, length, parameters(number))?;
            running.push((conversation, entry, 0));
        }
        met[step % PERIOD] = true;
        let entries: Vec<_> = running.iter().map(|(_, entry, _)| *entry).collect();
        // The last step launched ahead has the conversations of before the change.
        for ahead in [&[false][..], &[true, false], &[true], &[false]][round % 4] {
            let tokens = runner.step_rows(&entries, *ahead)?;
            let hashes = hashes(&mut runner, entries.len(), *ahead)?;
            for (row, (conversation, _, said)) in running.iter_mut().enumerate() {
                let (token, hash) = alone[*conversation][*said];
                if token != tokens[row] || (hashes[row] != 0 && hash != hashes[row]) {
                    return Err(format!(
                        "conversation {conversation}, its step {said}, at step {step} in row {row} of {}: {:?} \
                         together, {:?} alone",
                        entries.len(),
                        (tokens[row], hashes[row]),
                        (token, hash)
                    )
                    .into());
                }
                *said += 1;
            }
            step += 1;
        }
    }
    Ok(())
}

/// Compares forced tokens in one step with the bits of a step each, across the borders of pages and of the attention's
/// units.
fn forced(model: &Path, backend: Backend, types: Types, mode: Mode) -> Result<(), Box<dyn Error>> {
    let mut runner = load(model, backend, types, (mode, 64), PROMPTS.len())?;
    for (length, count) in PROMPTS
        .into_iter()
        .flat_map(|at| [(at, 7), (at, 2), (at, 1)])
    {
        let tokens: Vec<u32> = (0..count).map(|at| (at * 91 + 13) % 512).collect();
        // Each counts for the penalty and the random numbers, like a chosen one.
        let drawn = Parameters {
            temperature: 0.9,
            repetition_penalty: 1.2,
            seed: 5,
            ..Parameters::default()
        };
        let entry = begin_one(&mut runner, 0, length, drawn)?;
        let mut next = vec![runner.step_forced(entry, &tokens)?];
        let mut at_once = hashes(&mut runner, 1 + tokens.len(), false)?;
        at_once.truncate(1 + tokens.len());
        next.extend(runner.step_rows(&[entry], false)?);
        at_once.extend(hashes(&mut runner, 1, false)?);
        runner.leave(entry);

        let entry = begin_one(&mut runner, 0, length, drawn)?;
        let (mut alone, mut chosen) = (Vec::new(), Vec::new());
        for row in 0..=tokens.len() + 1 {
            chosen.extend(runner.step_rows(&[entry], false)?);
            alone.extend(hashes(&mut runner, 1, false)?);
            if let Some(token) = tokens.get(row) {
                runner.post(*token);
            }
        }
        runner.leave(entry);
        if alone != at_once || !chosen.ends_with(&next) {
            return Err(format!(
                "{count} tokens forced after {length}: {at_once:x?} in one step, {alone:x?} in as many"
            )
            .into());
        }
    }
    Ok(())
}

/// Compares a conversation whose masks are late with one whose masks are in time, next to another conversation.
fn guided(model: &Path, backend: Backend, types: Types, mode: Mode) -> Result<(), Box<dyn Error>> {
    let mask = |step: u32| {
        Mask::new(
            (0..16)
                .map(|word| 0x0101_0101 << ((step + word) % 8))
                .collect(),
        )
    };
    let scored = Parameters {
        temperature: 1.0,
        logprobs: Some(3),
        ..Parameters::default()
    };
    let mut runs = Vec::new();
    for late in [0, 3] {
        let mut runner = load(model, backend, types, (mode, 64), PROMPTS.len())?;
        let entries = [
            begin_one(&mut runner, 1, 40, scored)?,
            begin_one(&mut runner, 2, 63, scored)?,
        ];
        runner.guide(entries[1], Some(&mask(0)))?;
        let mut steps = Vec::new();
        for step in 0..24 {
            for wait in 0..if step % 3 == 1 { late } else { 0 } {
                let before = runner.state_of(entries[1]);
                // One step is launched ahead, before the mask is sent.
                runner.step_rows(&entries, wait == 1)?;
                if runner.state_of(entries[1]) != before {
                    return Err(format!("step {step} did not wait for its mask").into());
                }
            }
            if step > 0 {
                runner.guide(entries[1], Some(&mask(step)))?;
            }
            let from = runner.state_of(entries[1]);
            // The copy runs during the steps.
            let mut tries = 0;
            while runner.state_of(entries[1]) == from {
                runner.step_rows(&entries, false)?;
                tries += 1;
                if tries > 100 {
                    return Err(format!("the mask of step {step} never came").into());
                }
            }
            let token = runner.state_of(entries[1]).token;
            if !mask(step).allows(token) {
                return Err(format!("step {step} chose {token}, which its mask forbids").into());
            }
            let scored = runner.scored(entries[1]);
            if scored.len() != 4 || scored[0].token != token {
                return Err(format!("step {step} chose {token} and reported {scored:?}").into());
            }
            let bits: Vec<u32> = scored.iter().map(|one| one.logprob.to_bits()).collect();
            steps.push((token, bits));
        }
        runs.push(steps);
    }
    if runs[0] != runs[1] {
        return Err(format!("{:?} in time, {:?} late", runs[0], runs[1]).into());
    }
    Ok(())
}

/// Compares a conversation with evicted pages with one without, and one with a shared prefix with one without.
fn restored(
    model: &Path,
    backend: Backend,
    types: Types,
    mode: Mode,
) -> Result<(), Box<dyn Error>> {
    // Eight rows, with pages for one conversation.
    let mut runner = load_with(model, backend, types, (mode, 64), (1, STEP_ROWS))?;
    Ok(restored::hold(&mut runner)?)
}

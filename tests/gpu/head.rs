//! The guesses of a model's own head, or of an assistant: they change no token and no bit of the logits, a fresh conversation has
//! the same ones, and the logits of the passes are near those of the CPU.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use ganglion::executor::Given;
use ganglion::graph::Mode;
use ganglion::kv::{KvType, KvTypes, Owner, Wanted};
use ganglion::load::Backend;
use ganglion::quant::DType;
use ganglion::runner::{Runner, Stepped};
use ganglion::sampler::{Mask, Parameters, Promise};

use super::Types;
use super::modes::load_head;

/// Tokens of an answer.
const STEPS: usize = 60;
const GUESSES: usize = 3;
/// The only token that a mask allows.
const ALLOWED: u32 = 7;
/// The mean difference of the head's logits, whose spread is about 1. Those of 16-bit types and caches differ by this much.
const NEAR: f32 = 0.05;

/// A token, and the bits of the logits that it was chosen from.
type Said = (u32, Vec<u32>);

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
                println!(
                    "{model} {activations}, {cache} cache, {}: {said}",
                    mode.name()
                );
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
    let mut without = load_head(model, backend, types, mode, false)?;
    let expected = alone(&mut without)?;
    drop(without);
    let mut runner = load_head(model, backend, types, mode, true)?;
    if alone(&mut runner)? != expected {
        return Err("the head changes an answer".into());
    }
    let (guesses, wrong) = guessed(&mut runner, &expected)?;
    let slot = begin(&mut runner, 3, &prompt(90))?;
    let fresh = guess(&mut runner, slot)?;
    for _ in 0..8 {
        step(&mut runner, slot, &[501, 502])?;
        runner.head_guesses(&[(slot, 5)])?;
    }
    runner.leave(slot);
    runner.rewind(Owner(3), 70)?;
    let slot = begin(&mut runner, 3, &prompt(90))?;
    if guess(&mut runner, slot)? != fresh {
        return Err("guesses after a rewind differ".into());
    }
    runner.leave(slot);
    guided(&mut runner, &fresh)?;
    let far = distance(model, &mut runner)?;
    if far > NEAR {
        return Err(format!("the head's logits differ from the CPU's by {far:.4}").into());
    }
    Ok(format!(
        "{guesses} guesses, {wrong} steps with wrong ones; {far:.4} from the CPU"
    ))
}

fn prompt(length: u32) -> Vec<u32> {
    (0..length).map(|at| (at * 37 + 11) % 500).collect()
}

fn begin(runner: &mut Runner, user: u32, prompt: &[u32]) -> Result<usize, Box<dyn Error>> {
    let parameters = Parameters {
        temperature: 0.7,
        seed: 5,
        ..Parameters::default()
    };
    let wanted = Wanted::without_answers(prompt);
    let (slot, cached) = runner.join(Some(Owner(user.into())), user, wanted, parameters, 256)?;
    runner.prefill_all(&prompt[cached..])?;
    Ok(slot)
}

/// Runs a step of a slot with guesses; returns the chosen tokens.
fn step(runner: &mut Runner, slot: usize, guesses: &[u32]) -> Result<Vec<u32>, Box<dyn Error>> {
    let given = guesses.iter().copied().map(Given::Guessed).collect();
    match runner.step_each(&[(slot, given)], &[], (None, None))? {
        Stepped::Chosen(mut each) => Ok(each.remove(0)?),
        Stepped::Preempted => Err("nothing preempts it".into()),
    }
}

/// The guesses of a slot, and the bits of the logits of the last pass.
fn guess(runner: &mut Runner, slot: usize) -> Result<(Vec<u32>, Vec<u32>), Box<dyn Error>> {
    let before = runner.state_of(slot);
    let guesses = runner.head_guesses(&[(slot, GUESSES)])?.remove(0);
    if runner.state_of(slot) != before || guesses.len() != GUESSES {
        return Err(format!("{guesses:?} for {before:?}").into());
    }
    Ok((guesses, bits(&runner.head_logits()?)))
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|logit| logit.to_bits()).collect()
}

/// An answer without guesses.
fn alone(runner: &mut Runner) -> Result<Vec<Said>, Box<dyn Error>> {
    let slot = begin(runner, 1, &prompt(60))?;
    let mut said = vec![(runner.state_of(slot).token, Vec::new())];
    for _ in 0..STEPS {
        let token = step(runner, slot, &[])?[0];
        said.push((token, bits(&runner.row_logits(1)?)));
    }
    runner.leave(slot);
    Ok(said)
}

/// The same answer with the head's guesses, and with right ones in some steps. Returns the guesses, and the steps with wrong ones.
fn guessed(runner: &mut Runner, expected: &[Said]) -> Result<(usize, usize), Box<dyn Error>> {
    let slot = begin(runner, 2, &prompt(60))?;
    let (mut said, mut all, mut wrong) = (1, 0, 0);
    while said < expected.len() {
        let mut guesses = runner.head_guesses(&[(slot, GUESSES)])?.remove(0);
        if said % 4 == 0 {
            let right = expected[said..].iter().take(2);
            guesses = right.map(|(token, _)| *token).collect();
        }
        let chosen = step(runner, slot, &guesses)?;
        all += guesses.len();
        wrong += usize::from(chosen.len() <= guesses.len());
        let logits = runner.row_logits(1 + guesses.len())?;
        let each = expected[1].1.len();
        for (token, logits) in chosen.iter().zip(logits.chunks_exact(each)) {
            if let Some((right, of)) = expected.get(said)
                && (token != right || bits(logits) != *of)
            {
                return Err(format!("token {said} differs with guesses {guesses:?}").into());
            }
            said += 1;
        }
    }
    runner.leave(slot);
    if wrong < 5 || all < STEPS {
        return Err(format!("few guesses: {all}, {wrong} steps with wrong ones").into());
    }
    Ok((all, wrong))
}

/// Guesses where a mask limits the next token, once without waiting for it. The guesses are those without a mask, and the mask
/// limits the step after them.
fn guided(runner: &mut Runner, expected: &(Vec<u32>, Vec<u32>)) -> Result<(), Box<dyn Error>> {
    let mask = Mask::only(ALLOWED, runner.vocabulary());
    for (user, is_late) in [(4, false), (5, true)] {
        let slot = begin(runner, user, &prompt(90))?;
        let (promise, promised) = Promise::new();
        if is_late {
            runner.guide_later(slot, promise)?;
        } else {
            runner.guide(slot, Some(&mask))?;
        }
        if guess(runner, slot)? != *expected {
            return Err("a mask changes guesses".into());
        }
        promised.keep(mask.clone());
        // A step that does not find a late mask chooses nothing, and runs again.
        let mut chosen = Vec::new();
        for _ in 0..100 {
            chosen = step(runner, slot, &expected.0)?;
            if !chosen.is_empty() {
                break;
            }
        }
        if chosen != [ALLOWED] {
            return Err(format!("{chosen:?} under a mask after guesses").into());
        }
        runner.leave(slot);
    }
    Ok(())
}

/// Returns the mean difference of the head's first logits from those of the CPU, after a prompt with the same first token.
fn distance(model: &Path, runner: &mut Runner) -> Result<f32, Box<dyn Error>> {
    let exact = (DType::F16, KvTypes::both(KvType::F32));
    let mut cpu = load_head(model, Backend::Cpu, exact, Mode::None, true)?;
    for length in 80..120 {
        let (mut tokens, mut first) = (Vec::new(), Vec::new());
        for one in [&mut *runner, &mut cpu] {
            let slot = begin(one, 100 + length, &prompt(length))?;
            tokens.push(one.state_of(slot).token);
            one.head_guesses(&[(slot, 1)])?;
            let logits = one.head_logits()?;
            first.push(logits[..logits.len() / 2].to_vec());
            one.leave(slot);
        }
        if tokens[0] == tokens[1] {
            let differences = first[0].iter().zip(&first[1]).map(|(a, b)| (a - b).abs());
            #[allow(clippy::cast_precision_loss)] // logits are few
            return Ok(differences.sum::<f32>() / first[0].len() as f32);
        }
    }
    Err("no prompt has the same first token on the CPU".into())
}

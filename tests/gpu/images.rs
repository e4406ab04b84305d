//! Prompts with images against references of transformers: the files of `tests/golden/vision`.

#[allow(dead_code)] // a test has more uses for it
#[path = "../images/reference.rs"]
pub(super) mod reference;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use ganglion::kv::{KvType, KvTypes};
use ganglion::load::{self, Backend, KvMemory, Settings};
use ganglion::model::Checkpoint;
use ganglion::quant::DType;
use ganglion::runner::{MixedPrompt, Runner};
use ganglion::sampler::Parameters;
use ganglion::tape::STEP_ROWS;

use self::reference::{Case, cases};
use super::towers::{files, settings};
use super::{Types, image_rows};

/// Bounds of a type: the mean and the 99th percentile of |delta logprob|, and the part of the greedy tokens that must be
/// those of the reference, where each follows the reference's.
struct Bounds {
    mean: f64,
    p99: f64,
    greedy: f64,
}

/// Section 9 of the design, for tiny models that amplify rounding `amplifies` times as much as the first four. On the CPU
/// the bounds are ten times the noise of float32.
fn bounds(backend: Backend, (activations, cache): Types, amplifies: f64) -> Bounds {
    let (mean, p99, greedy) = match (backend, activations) {
        (Backend::Cpu, _) => (2e-5, 5e-4, 1.0),
        (_, DType::BF16) => (1e-2, 5e-2, 0.9),
        _ if cache == KvTypes::both(KvType::F16) => (5e-3, 5e-2, 0.95),
        _ => (1e-2, 5e-2, 0.9),
    };
    let amplifies = if backend == Backend::Cpu {
        1.0
    } else {
        amplifies
    };
    Bounds {
        mean: amplifies * mean,
        p99: amplifies * p99,
        greedy,
    }
}

/// Prints a line for each model in FOLDER, each type and each case. `--cpu` runs the check without a GPU.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let (place, folders) = match super::place(arguments) {
        Ok(found) => found,
        Err(code) => return code,
    };
    let on_cpu = [(DType::F32, KvTypes::both(KvType::F32))];
    let types: &[Types] = if place.backend == Backend::Cpu {
        &on_cpu
    } else {
        &super::TYPES
    };
    let mut passed = !folders.is_empty();
    for folder in folders {
        let stems = files(Path::new(folder), ".prompts.json");
        passed &= !stems.is_empty();
        for stem in stems {
            for types in types {
                let outcome = compare(&stem, &place, *types);
                passed &= outcome.is_ok();
                let name = stem.file_name().unwrap_or_default().to_string_lossy();
                let (activations, cache) = (types.0.name(), types.1.name());
                let said = outcome.unwrap_or_else(|error| format!("FAILED: {error}"));
                println!("{name} {activations}, {cache} cache: {said}");
            }
        }
    }
    super::verdict(passed)
}

fn compare(stem: &Path, place: &Settings, types: Types) -> Result<String, Box<dyn Error>> {
    let file = |kind: &str| stem.with_extension(kind);
    let cases = cases(&file("prompts.json"), &file("prompts.safetensors"));
    let model = file("q8_0.gguf");
    let amplifies: f64 = std::fs::read_to_string(file("rounding"))?.trim().parse()?;
    let mut whole = load(&model, (place, types), 96)?;
    let mut said = Vec::new();
    for case in &cases {
        let met = meet(&mut whole, case, &bounds(place.backend, types, amplifies));
        said.push(met.map_err(|error| format!("{}: {error}", case.name))?);
    }
    // A slice cuts no image whose rows see each other, and changes no bit.
    let one = &cases[0];
    let expected = logits(&mut whole, one)?;
    // A part of a GPU is one runner's at a time.
    drop(whole);
    for chunk in [16, 19] {
        if logits(&mut load(&model, (place, types), chunk)?, one)? != expected {
            return Err(format!("{}: slices of {chunk} rows change the logits", one.name).into());
        }
    }
    let mut rows = load_rows(&model, (place, types), 96, STEP_ROWS)?;
    let compared = image_rows::hold(&mut rows, &cases)?;
    said.push(format!("{compared} rows together as alone"));
    Ok(said.join("; "))
}

fn load(
    model: &Path,
    types: (&Settings, Types),
    prefill_chunk: usize,
) -> Result<Runner, Box<dyn Error>> {
    load_rows(model, types, prefill_chunk, 1)
}

/// Loads a model for as many conversations as rows.
fn load_rows(
    model: &Path,
    (place, (activations, cache)): (&Settings, Types),
    prefill_chunk: usize,
    rows: usize,
) -> Result<Runner, Box<dyn Error>> {
    let checkpoint = Checkpoint::open(model)?;
    let settings = Settings {
        kv_type: cache.into(),
        context: 512,
        kv_memory: KvMemory::Conversations(rows),
        launch_ahead: true,
        rows,
        prefill_chunk,
        ..settings(place, activations)
    };
    Ok(load::runner(&checkpoint, &settings, &mut |_, _| {})?)
}

/// The logits of every row.
fn logits(runner: &mut Runner, case: &Case) -> Result<Vec<Vec<f32>>, Box<dyn Error>> {
    let images = case.images();
    let inputs = case.inputs(&images);
    let prompt = MixedPrompt {
        inputs: &inputs,
        images: &images,
    };
    let mut all = Vec::new();
    runner.prompt_logits(prompt, |logits| all.push(logits.to_vec()))?;
    Ok(all)
}

fn meet(runner: &mut Runner, case: &Case, bounds: &Bounds) -> Result<String, Box<dyn Error>> {
    let (mut deltas, mut best) = (Vec::new(), 0);
    let all = logits(runner, case)?;
    for (at, logits) in all.iter().enumerate() {
        best += usize::from(argmax(logits) == case.argmax[at]);
        if let Some(Some(expected)) = case.logprobs.get(at) {
            let found = logprob(logits, case.ids[at + 1] as usize);
            deltas.push((found - expected).abs());
        }
    }
    if let Some(last) = all.last() {
        let expected = case.last.iter();
        deltas.extend(expected.map(|(id, expected)| (logprob(last, *id) - expected).abs()));
    }
    deltas.sort_by(f64::total_cmp);
    #[allow(clippy::cast_precision_loss)] // logprobs are few
    let mean = deltas.iter().sum::<f64>() / deltas.len() as f64;
    let p99 = deltas[(deltas.len() * 99 / 100).min(deltas.len() - 1)];

    let images = case.images();
    let inputs = case.inputs(&images);
    let prompt = MixedPrompt {
        inputs: &inputs,
        images: &images,
    };
    runner.prompt(None, 0, prompt, Parameters::default())?;
    // Each step runs the reference's token, so that one near-tie does not decide the rest.
    let mut chosen = Vec::new();
    for expected in &case.greedy {
        chosen.push(runner.token());
        runner.post(*expected);
        runner.step(false)?;
    }
    let same = chosen.iter().zip(&case.greedy).filter(|(a, b)| a == b);
    let greedy = same.count();
    // The same tokens in one step rotate by the same positions.
    runner.prompt(None, 0, prompt, Parameters::default())?;
    runner.post(case.greedy[0]);
    let next = runner.step_forced(runner.slot(), &case.greedy[1..8])?;
    if next != chosen[8] {
        return Err(format!(
            "{next} follows 8 rows of one step, {} as many steps",
            chosen[8]
        )
        .into());
    }
    let (all, rows) = (case.greedy.len(), case.argmax.len());
    let said = format!(
        "{} mean {mean:.1e}, p99 {p99:.1e}, argmax {best}/{rows}, greedy {greedy}/{all}",
        case.name
    );
    #[allow(clippy::cast_precision_loss)] // tokens are few
    let agrees = greedy as f64 >= bounds.greedy * all as f64;
    if mean <= bounds.mean && p99 <= bounds.p99 && agrees {
        Ok(said)
    } else {
        Err(said.into())
    }
}

/// The log probability of a token.
fn logprob(logits: &[f32], token: usize) -> f64 {
    let greatest = logits.iter().copied().fold(f32::MIN, f32::max);
    let weights = logits.iter().map(|logit| f64::from(logit - greatest).exp());
    f64::from(logits[token] - greatest) - weights.sum::<f64>().ln()
}

/// The most probable token.
fn argmax(logits: &[f32]) -> usize {
    let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    best.map_or(0, |(token, _)| token)
}

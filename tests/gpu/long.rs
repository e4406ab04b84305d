//! Long conversations: at position 33,000 the GPU is as near to the CPU as within the first thousand.
//!
//! The tokens are random, so that each is an equally good probe, and teacher-forced, so that near-ties do not matter.

use std::error::Error;
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;

use ganglion::bench::score::{self, Case, Reference};
use ganglion::kv::{KvType, Owner};
use ganglion::load::{self, Backend, CudaSettings, KvMemory, Settings};
use ganglion::model::Checkpoint;
use ganglion::quant::DType;
use ganglion::runner::Runner;
use ganglion::sampler::Parameters;

/// Positions of a conversation, and the number of them in a mean.
const LENGTHS: [(usize, usize); 2] = [(9_000, 1_000), (33_000, 3_000)];
/// Tokens generated after that.
const STEPS: usize = 32;
/// Bounds on |delta logprob| over a stretch: section 9 of the design, for tiny models.
const BOUNDS: [(KvType, f64); 3] = [
    (KvType::F16, 5e-3),
    (KvType::BF16, 1e-2),
    (KvType::Q8_0, 1e-2),
];
/// A stretch's largest mean, relative to the first one's.
const FLAT: f64 = 2.0;

/// Prints a line of means for each model, type and length. `--cpu` runs the check without a GPU.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let (backend, models) = match super::backend(arguments) {
        Ok(found) => found,
        Err(code) => return code,
    };
    let outcome = models
        .iter()
        .try_for_each(|model| compare(Path::new(model), backend));
    if let Err(error) = &outcome {
        println!("FAILED: {error}");
    }
    super::verdict(outcome.is_ok())
}

/// Log probabilities of the token after each position, then of every token after each step, and the chosen tokens.
struct Said {
    logprobs: Vec<f64>,
    steps: Steps,
}

type Steps = Vec<(u32, Vec<f64>)>;

fn compare(model: &Path, backend: Backend) -> Result<(), Box<dyn Error>> {
    let longest = LENGTHS[LENGTHS.len() - 1].0;
    let vocabulary = u32::try_from(Checkpoint::open(model)?.shape.vocabulary)?;
    let mut random = fastrand::Rng::with_seed(14);
    let tokens: Vec<u32> = (0..longest).map(|_| random.u32(..vocabulary)).collect();
    let mut reference = load(model, Backend::Cpu, KvType::F32, longest)?;
    let logprobs = score(&mut reference, &tokens)?;
    // The longest first: its prefill then includes all the others.
    let mut all = Vec::new();
    for (length, stretch) in LENGTHS.into_iter().rev() {
        let tokens = &tokens[..length];
        let expected = Said {
            logprobs: logprobs[..length - 1].to_vec(),
            steps: generate(&mut reference, None, tokens)?,
        };
        all.insert(0, (tokens, stretch, expected));
    }
    let mut worst = Vec::new();
    for (tokens, stretch, expected) in all {
        let length = tokens.len();
        for (cache, bound) in BOUNDS {
            let bound = bound * rounding(model)?;
            let mut runner = load(model, backend, cache, length)?;
            let said = Said {
                logprobs: score(&mut runner, tokens)?,
                // Another user: everything is prefilled again, with as many rows at once as a prompt has.
                steps: generate(&mut runner, Some(Owner(1)), tokens)?,
            };
            let what = format!("{} {} {length}", model.display(), cache.name());
            let means = means(&expected, &said, stretch);
            println!("{what}: {}", shown(&means));
            worst.push(format!(
                "{} {length}: {}",
                cache.name(),
                judge(&means, bound)?
            ));
            compare_steps(&expected, &said, bound).map_err(|error| format!("{what}: {error}"))?;
        }
    }
    println!("{}: {}", model.display(), worst.join("; "));
    Ok(())
}

/// The factor by which a tiny model amplifies rounding (golden/README.md).
fn rounding(model: &Path) -> Result<f64, Box<dyn Error>> {
    let folder = if model.is_dir() {
        model
    } else {
        model.parent().unwrap_or(model)
    };
    let said = folder.join("rounding");
    if !said.exists() {
        return Ok(1.0);
    }
    Ok(std::fs::read_to_string(said)?.trim().parse()?)
}

/// Means of |delta logprob| with their positions: of stretches, and of the steps after them.
fn means(expected: &Said, said: &Said, stretch: usize) -> Vec<(Range<usize>, f64)> {
    let deltas = |(ours, theirs): (&f64, &f64)| (ours - theirs).abs();
    let pairs = said.logprobs.iter().zip(&expected.logprobs);
    let all: Vec<f64> = pairs.map(deltas).collect();
    let starts = (0..all.len()).step_by(stretch);
    let stretches = starts.zip(all.chunks(stretch));
    let mut means: Vec<_> = stretches
        .map(|(start, deltas)| (start..start + deltas.len(), mean(deltas)))
        .collect();
    let pairs = said.steps.iter().zip(&expected.steps);
    let alike = pairs.scan(true, |alike, (ours, theirs)| {
        // After a different token the texts differ.
        let compared = alike.then_some((&ours.1, &theirs.1));
        *alike &= ours.0 == theirs.0;
        compared
    });
    let steps: Vec<f64> = alike
        .flat_map(|(ours, theirs)| ours.iter().zip(theirs).map(deltas))
        .collect();
    let start = all.len() + 1;
    means.push((start..start + STEPS, mean(&steps)));
    means
}

#[allow(clippy::cast_precision_loss)] // counts of positions
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn shown(means: &[(Range<usize>, f64)]) -> String {
    let mean = |(at, mean): &(Range<usize>, f64)| format!("{} {mean:.2e}", at.start);
    means.iter().map(mean).collect::<Vec<_>>().join(", ")
}

/// Returns the worst mean, or an error if it exceeds the bound.
fn judge(means: &[(Range<usize>, f64)], bound: f64) -> Result<String, String> {
    let first = means[0].1;
    for (at, mean) in means {
        // NaN also fails.
        if !(*mean <= bound && *mean <= FLAT * first) {
            return Err(format!(
                "mean |delta logprob| at {at:?} is {mean:.2e}: allowed are {bound:.0e}, and {FLAT} x the first, {first:.2e}"
            ));
        }
    }
    let worst = means.iter().map(|(_, mean)| *mean).fold(0.0, f64::max);
    Ok(format!("{worst:.2e}, {:.2} x the first", worst / first))
}

/// If the GPU chooses another token than the CPU, both tokens are almost equally probable.
fn compare_steps(expected: &Said, said: &Said, bound: f64) -> Result<(), String> {
    let mut pairs = said.steps.iter().zip(&expected.steps).enumerate();
    let Some((step, (ours, theirs))) = pairs.find(|(_, (ours, theirs))| ours.0 != theirs.0) else {
        return Ok(());
    };
    let logprob = |token: u32| theirs.1[token as usize];
    let regret = logprob(theirs.0) - logprob(ours.0);
    if regret > 10.0 * bound {
        return Err(format!(
            "step {step} chooses {}, whose log probability is {regret:.2e} below that of {}",
            ours.0, theirs.0
        ));
    }
    println!("step {step} chooses {} for {}: a tie", ours.0, theirs.0);
    Ok(())
}

fn score(runner: &mut Runner, tokens: &[u32]) -> Result<Vec<f64>, Box<dyn Error>> {
    let mut case = Case::default();
    case.input_ids = tokens.to_vec();
    let reference = Reference {
        cases: vec![case],
        ..Reference::default()
    };
    let scored = score::score(runner, &reference, 0)?;
    let case = scored.cases.into_iter().next();
    Ok(case.ok_or("there is one case")?.token_logprobs)
}

/// Greedy steps after some tokens: each chosen token, and its log probabilities.
fn generate(
    runner: &mut Runner,
    owner: Option<Owner>,
    tokens: &[u32],
) -> Result<Steps, Box<dyn Error>> {
    let user = u32::from(owner.is_some());
    let cached = runner.begin(owner, user, tokens, Parameters::default())?;
    runner.prefill_all(&tokens[cached..])?;
    let entry = runner.slot();
    let mut steps = Steps::new();
    for _ in 0..STEPS {
        let token = runner.step_rows(&[entry], false)?[0];
        let logits = runner.row_logits(1)?;
        let sum: f64 = logits.iter().map(|logit| f64::from(*logit).exp()).sum();
        let logprobs = logits.iter().map(|logit| f64::from(*logit) - sum.ln());
        steps.push((token, logprobs.collect()));
    }
    Ok(steps)
}

/// Settings with room for that many positions and the steps, beyond the model's training context.
fn load(
    model: &Path,
    backend: Backend,
    cache: KvType,
    length: usize,
) -> Result<Runner, Box<dyn Error>> {
    let context = length + STEPS + 1;
    let settings = Settings {
        backend,
        kv_type: cache.into(),
        context,
        kv_memory: KvMemory::Conversations(2),
        cuda: CudaSettings {
            activations: match cache {
                KvType::BF16 => DType::BF16,
                _ => DType::F16,
            },
            ..CudaSettings::default()
        },
        ..Settings::default()
    };
    let mut checkpoint = Checkpoint::open(model)?;
    checkpoint.shape.context = checkpoint.shape.context.max(context);
    Ok(load::runner(&checkpoint, &settings, &mut |_, _| {})?)
}

//! Every mode of recording gives the tokens of eager execution.

use ganglion::graph::Mode;
use ganglion::kv::Owner;
use ganglion::runner::{RunError, Runner};
use ganglion::sampler::Parameters;
use ganglion::trial::refusals::same;

use super::{Outcome, RECORDING};

const TOKENS: usize = 12;
const LONGEST: u32 = 40;

/// Prompts of every length up to `LONGEST`, greedy and sampled, in every mode.
pub(super) fn same_tokens(runner: &mut Runner) -> Outcome {
    let mut texts = Vec::new();
    for mode in std::iter::once(Mode::None).chain(RECORDING) {
        runner.set_graph_mode(mode);
        let mut said = Vec::new();
        for length in 1..=LONGEST {
            for temperature in [0.0, 0.8] {
                let text = generate(runner, length, temperature);
                said.push(text.map_err(|error| error.to_string())?);
            }
        }
        let launches = runner.graph().counters().launches;
        same("replayed", launches > 0, mode != Mode::None)?;
        texts.push((mode, said));
    }
    let (_, eager) = &texts[0];
    for (mode, said) in &texts[1..] {
        for (index, (text, to_be)) in said.iter().zip(eager).enumerate() {
            let what = format!("{}, prompt of {} tokens", mode.name(), index / 2 + 1);
            same(&what, text, to_be)?;
        }
    }
    let mut distinct: Vec<u32> = eager.concat();
    distinct.sort_unstable();
    distinct.dedup();
    let (texts, distinct) = (eager.len(), distinct.len());
    Ok(format!(
        "{texts} texts of {TOKENS} tokens, {distinct} distinct"
    ))
}

/// From an empty slot, with steps launched ahead.
fn generate(runner: &mut Runner, length: u32, temperature: f32) -> Result<Vec<u32>, RunError> {
    let owner = Owner(1);
    let prompt: Vec<u32> = (0..length).map(|at| (7 + at * at * 31) % 500).collect();
    let parameters = Parameters {
        temperature,
        seed: u64::from(length),
        ..Parameters::default()
    };
    runner.rewind(owner, 0)?;
    runner.begin(Some(owner), 0, &prompt, parameters)?;
    runner.prefill_all(&prompt)?;
    let mut tokens = vec![runner.token()];
    while tokens.len() < TOKENS {
        tokens.push(runner.step(tokens.len() + 1 < TOKENS)?);
    }
    Ok(tokens)
}

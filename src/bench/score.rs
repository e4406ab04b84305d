//! Teacher-forced scores of a model, and their comparison with a reference: the test of every backend. They are
//! statistics of log probabilities, because one near-tie would decide between texts.

use serde::{Deserialize, Serialize};

use crate::runner::{RunError, Runner, log_sum_exp};
use crate::sampler::Parameters;
use crate::tape::Ending;

/// Cases in the format of `tests/golden`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Reference {
    #[serde(default)]
    pub source: String,
    pub cases: Vec<Case>,
}

/// One sequence of tokens; only `input_ids` must be there.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Case {
    pub input_ids: Vec<u32>,
    /// `[i]` = log p(`input_ids[i + 1]` | `input_ids[..=i]`)
    #[serde(default)]
    pub token_logprobs: Vec<f64>,
    /// The most probable token after each position.
    #[serde(default)]
    pub argmax: Vec<u32>,
    /// The ten most probable tokens after the last position, with their log probabilities.
    #[serde(default)]
    pub last_top10: Vec<(u32, f64)>,
    /// Greedy tokens after the last position.
    #[serde(default)]
    pub greedy: Vec<u32>,
    /// Log probabilities by position and token for a comparison; not part of the format.
    #[serde(skip)]
    regrets: Vec<f64>,
    #[serde(skip)]
    top_of_reference: Vec<f64>,
}

/// The reason why a file could not be scored.
#[derive(Debug, thiserror::Error)]
pub enum ScoreError {
    #[error("cases is empty; give at least one with input_ids")]
    NoCases,
    #[error("cases[{0}]: input_ids is empty; give at least one id")]
    Empty(usize),
    #[error("cases[{case}]: {name} has {len} entries; {ids} input_ids need {needed}")]
    Length {
        case: usize,
        name: &'static str,
        len: usize,
        ids: usize,
        needed: usize,
    },
    #[error(
        "cases[{case}]: id {id} is not in the model's vocabulary of {vocabulary}; was the file made for another model?"
    )]
    Unknown {
        case: usize,
        id: u32,
        vocabulary: usize,
    },
    #[error("cases[{case}]: {error}")]
    Run { case: usize, error: RunError },
    #[error("cases[{0}]: the model's output is not finite")]
    NonFinite(usize),
}

impl Reference {
    /// Checks that the figures can be compared with the scores of a model with a vocabulary of this size.
    ///
    /// # Errors
    /// No cases, an empty case, figures that do not match its ids, or ids beyond the vocabulary.
    pub fn check(&self, vocabulary: usize) -> Result<(), ScoreError> {
        if self.cases.is_empty() {
            return Err(ScoreError::NoCases);
        }
        let mut cases = self.cases.iter().enumerate();
        cases.try_for_each(|(number, case)| case.check(number, vocabulary))
    }
}

impl Case {
    fn check(&self, case: usize, vocabulary: usize) -> Result<(), ScoreError> {
        let ids = self.input_ids.len();
        let pairs = ids.checked_sub(1).ok_or(ScoreError::Empty(case))?;
        for (name, len, needed) in [
            ("token_logprobs", self.token_logprobs.len(), pairs),
            ("argmax", self.argmax.len(), ids),
        ] {
            if len != 0 && len != needed {
                return Err(ScoreError::Length {
                    case,
                    name,
                    len,
                    ids,
                    needed,
                });
            }
        }
        let top = self.last_top10.iter().map(|(id, _)| id);
        let mut all = self.input_ids.iter().chain(&self.argmax).chain(top);
        match all.find(|id| **id as usize >= vocabulary) {
            Some(&id) => Err(ScoreError::Unknown {
                case,
                id,
                vocabulary,
            }),
            None => Ok(()),
        }
    }
}

/// Scores every case of `reference`, with `greedy` tokens after each.
///
/// # Errors
/// Errors of `Reference::check`, more tokens than the context holds, and logits that are not finite.
pub fn score(
    runner: &mut Runner,
    reference: &Reference,
    greedy: usize,
) -> Result<Reference, ScoreError> {
    reference.check(runner.shape().vocabulary)?;
    let cases = reference.cases.iter().enumerate();
    let cases = cases
        .map(|(index, case)| score_case(runner, index, case, greedy))
        .collect::<Result<_, _>>()?;
    Ok(Reference {
        source: format!(
            "ganglion {} {}",
            env!("CARGO_PKG_VERSION"),
            runner.backend()
        ),
        cases,
    })
}

fn score_case(
    runner: &mut Runner,
    index: usize,
    case: &Case,
    greedy: usize,
) -> Result<Case, ScoreError> {
    let run = |error| ScoreError::Run { case: index, error };
    let ids = &case.input_ids;
    let mut ours = Case {
        input_ids: ids.clone(),
        ..Case::default()
    };
    let mut finite = true;
    // The cache is not reused, because every row's logits are needed.
    runner
        .begin(None, 0, &[], Parameters::default())
        .map_err(run)?;
    runner
        .logits(ids, |logits| {
            let at = ours.argmax.len();
            let log_sum = log_sum_exp(logits);
            finite &= log_sum.is_finite();
            let logprob = |token: u32| {
                logits
                    .get(token as usize)
                    .map_or(f64::NAN, |x| f64::from(*x) - log_sum)
            };
            let best = argmax(logits);
            ours.argmax.push(best);
            if let Some(next) = ids.get(at + 1) {
                ours.token_logprobs.push(logprob(*next));
            } else {
                ours.last_top10 = top10(logits)
                    .into_iter()
                    .map(|token| (token, logprob(token)))
                    .collect();
                ours.top_of_reference = case
                    .last_top10
                    .iter()
                    .map(|(token, _)| logprob(*token))
                    .collect();
            }
            if let Some(theirs) = case.argmax.get(at) {
                ours.regrets.push(logprob(best) - logprob(*theirs));
            }
        })
        .map_err(run)?;
    if !finite {
        return Err(ScoreError::NonFinite(index));
    }
    if greedy > 0 {
        let cached = runner
            .begin(None, 0, ids, Parameters::default())
            .map_err(run)?;
        runner.prefill(&ids[cached..], Ending::Token).map_err(run)?;
        ours.greedy.push(runner.token());
        for _ in 1..greedy {
            ours.greedy.push(runner.step(true).map_err(run)?);
        }
    }
    Ok(ours)
}

/// The distance of scores from a reference's. Log probabilities are natural.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// The number of compared log probabilities.
    pub positions: usize,
    /// The mean of |delta logprob|.
    pub mean: f64,
    /// The 99th percentile of |delta logprob|.
    pub p99: f64,
    pub mean_regret: f64,
    /// The largest difference between the logprob of our argmax and that of the reference's argmax.
    pub max_regret: f64,
    /// Greedy tokens before the first difference, over all cases.
    pub greedy_equal: usize,
    pub greedy_total: usize,
}

impl std::fmt::Display for Comparison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            positions,
            mean,
            p99,
            mean_regret,
            max_regret,
            greedy_equal,
            greedy_total,
        } = self;
        writeln!(f, "logprobs compared     {positions}")?;
        writeln!(f, "mean |delta logprob|  {mean:.3e}")?;
        writeln!(f, "p99 |delta logprob|   {p99:.3e}")?;
        writeln!(f, "mean regret           {mean_regret:.3e}")?;
        writeln!(f, "max regret            {max_regret:.3e}")?;
        writeln!(f, "greedy tokens equal   {greedy_equal} of {greedy_total}")
    }
}

/// Compares scores with the reference that has the same `input_ids`.
#[must_use]
#[allow(clippy::cast_precision_loss)] // counts of positions
pub fn compare(ours: &Reference, reference: &Reference) -> Comparison {
    let mut deltas = Vec::new();
    let mut regrets = Vec::new();
    let mut comparison = Comparison::default();
    for (ours, theirs) in ours.cases.iter().zip(&reference.cases) {
        let pairs = ours.token_logprobs.iter().zip(&theirs.token_logprobs);
        deltas.extend(pairs.map(|(a, b)| (a - b).abs()));
        let pairs = ours.top_of_reference.iter().zip(&theirs.last_top10);
        deltas.extend(pairs.map(|(a, (_, b))| (a - b).abs()));
        regrets.extend_from_slice(&ours.regrets);
        let pairs = ours.greedy.iter().zip(&theirs.greedy);
        comparison.greedy_total += pairs.len();
        comparison.greedy_equal += pairs.take_while(|(a, b)| a == b).count();
    }
    deltas.sort_unstable_by(f64::total_cmp);
    comparison.positions = deltas.len();
    if let Some(last) = deltas.len().checked_sub(1) {
        comparison.mean = deltas.iter().sum::<f64>() / deltas.len() as f64;
        comparison.p99 = deltas[last * 99 / 100];
    }
    if !regrets.is_empty() {
        comparison.mean_regret = regrets.iter().sum::<f64>() / regrets.len() as f64;
        comparison.max_regret = regrets.iter().copied().fold(0.0, f64::max);
    }
    comparison
}

fn argmax(logits: &[f32]) -> u32 {
    top(logits, 1).first().copied().unwrap_or(0)
}

fn top10(logits: &[f32]) -> Vec<u32> {
    top(logits, 10)
}

/// Returns the `n` most probable tokens, of equals the first one first.
fn top(logits: &[f32], n: usize) -> Vec<u32> {
    let mut best: Vec<(u32, f32)> = Vec::with_capacity(n + 1);
    for (token, &logit) in (0..).zip(logits) {
        if best.len() < n || best.last().is_some_and(|(_, least)| logit > *least) {
            let at = best.partition_point(|(_, held)| *held >= logit);
            best.insert(at, (token, logit));
            best.truncate(n);
        }
    }
    best.into_iter().map(|(token, _)| token).collect()
}

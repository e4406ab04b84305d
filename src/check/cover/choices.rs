//! Cases of token choice: greedy, sampled, and invalid logits.

use super::common::{VOCABULARY, unused_cache};
use crate::check::case::{Case, Logits};
use crate::check::deck::Deck;
use crate::check::inputs;
use crate::check::world::{Builder, Run, World};
use crate::quant::random::Random;
use crate::quant::{DType, Format};
use crate::sampler::{Mask, Parameters};
use crate::tape::{Buffer, Input, Op};

/// Tokens of the table, and bits of masks.
const MASKED: usize = 32_000;

pub(super) fn world() -> World {
    let mut b = Builder::new(31, unused_cache(), (Format::F16, MASKED, 64));
    let mut vocabularies = Deck::new(32, &[2, 17, 300, 1000, 32_000, VOCABULARY]);
    let mut rows = Deck::new(33, &[0, 1, 7]);
    let mut scored = Deck::new(40, &[None, Some(0), None, Some(5), Some(20)]);
    let mut masked = Deck::new(41, &[false, true, false]);
    let mut steps = Deck::new(39, &[1, 8, 2, 4]);
    let mut sample = |b: &mut Builder, name: &str, logits: Logits, parameters: Parameters| {
        let (vocabulary, rows) = (vocabularies.deal(), rows.deal());
        let run = Run {
            rows: if rows == 0 { steps.deal() } else { rows },
            // Zero rows of a prompt stand for a step.
            input: if rows == 0 {
                Input::Step
            } else {
                Input::Prompt
            },
            activation: DType::F16,
        };
        let op = Op::Sample { logits: Buffer(0) };
        let logprobs = scored.deal();
        let parameters = Parameters {
            logprobs,
            ..parameters
        };
        let masked = masked.deal() && vocabulary > 2 && vocabulary <= MASKED;
        let bound = if masked { ", masked" } else { "" };
        let name = format!("{name} of {vocabulary}{bound}, {logprobs:?} told");
        let case = b.case(&name, run, &[("logits", vocabulary, false)], op);
        if run.input == Input::Prompt {
            case.set_rows(Buffer(0), 1);
        }
        case.pad(run.rows / 3);
        (case.logits, case.parameters) = (logits, parameters);
        (case.position, case.runs) = (3, 12);
        history(case, vocabulary);
        case.mask = masked.then(|| mask(case.seed, vocabulary));
    };
    for (name, logits) in [("greedy", Logits::Normal), ("tied", Logits::Tied)] {
        for penalty in [1.0, 1.3] {
            let parameters = Parameters {
                repetition_penalty: penalty,
                ..Parameters::default()
            };
            for _ in 0..3 {
                sample(
                    &mut b,
                    &format!("{name}, penalty {penalty}"),
                    logits,
                    parameters,
                );
            }
        }
    }
    for temperature in [0.0, 0.8] {
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let parameters = Parameters {
                temperature,
                ..Parameters::default()
            };
            let name = format!("{odd} at temperature {temperature}");
            sample(&mut b, &name, Logits::With(odd), parameters);
        }
    }
    let mut temperatures = Deck::new(34, &[0.3, 0.8, 1.0, 2.0]);
    let mut counts = Deck::new(35, &[0, 1, 5, 40]);
    let mut masses = Deck::new(36, &[1.0, 0.9, 0.5]);
    let mut floors = Deck::new(37, &[0.0, 0.05, 0.3]);
    let mut penalties = Deck::new(38, &[1.0, 1.1, 0.8, 2.0]);
    for _ in 0..30 {
        let parameters = Parameters {
            temperature: temperatures.deal(),
            top_k: counts.deal(),
            top_p: masses.deal(),
            min_p: floors.deal(),
            repetition_penalty: penalties.deal(),
            seed: b.random.bits(),
            ..Parameters::default()
        };
        sample(&mut b, &drawn(&parameters), Logits::Peaked, parameters);
    }
    b.finish()
}

fn drawn(parameters: &Parameters) -> String {
    let Parameters {
        temperature,
        top_k,
        top_p,
        min_p,
        repetition_penalty,
        ..
    } = parameters;
    format!(
        "temperature {temperature}, top_k {top_k}, top_p {top_p}, min_p {min_p}, penalty {repetition_penalty}"
    )
}

/// Allows about half of the vocabulary, including a probable token.
fn mask(seed: u64, vocabulary: usize) -> Mask {
    let mut random = Random::new(seed ^ 2);
    let mut words: Vec<u32> = (0..Mask::words_of(vocabulary))
        .map(|_| u32::try_from(random.bits() >> 32).unwrap_or(0))
        .collect();
    let likely = inputs::peaks(seed, vocabulary);
    let token = likely.last().copied().unwrap_or(0);
    words[token as usize / 32] |= 1 << (token % 32);
    Mask::new(words)
}

/// Adds more tokens than the sampler remembers, some of them twice, some of them probable.
fn history(case: &mut Case, vocabulary: usize) {
    let mut random = Random::new(case.seed ^ 1);
    let mut token = || u32::try_from(random.below(vocabulary)).unwrap_or(0);
    case.history = (0..50).map(|_| token()).collect();
    let likely = inputs::peaks(case.seed, vocabulary);
    for _ in 0..2 {
        case.history.extend(likely.iter().step_by(3));
    }
    case.history.extend(likely.first());
}

//! Measures the cost of constrained answers in one table: the time to compute a mask, and tokens per second without a
//! guide, with a small schema, with 260 tools, and with calls of mostly forced tokens. Two controls choose the forced
//! tokens one by one and give equally short answers without a guide. Each case runs with one caller and with eight.
//!
//! Run `cargo build --release` first, which builds gangliond. Then run `cargo run --release --example guides -- MODEL
//! [cpu|cuda] [ROUNDS]` with any model whose vocabulary has words. Without ROUNDS it times masks only. Grammars are
//! compiled before the timing starts, and the cases take turns. The program prints figures; it judges nothing.

mod cases;
mod engine;
mod masks;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use ganglion::engine::{Client, Event, Handle, Message, Options, Outcome, Role};
use ganglion::guide::Grammar;
use ganglion::load::Backend;
use ganglion::model::language::Words;
use ganglion::sampler::Parameters;

use cases::{BRIEF, TEXTS, guided};
use masks::{Took, micros};

const ONE_BY_ONE: &str = "the same, one by one";
/// The number of unguided tokens that equals the length of those calls, so that prefills are as frequent.
const AS_BRIEF: &str = "no guide, as brief";
/// Measurements per case, in sequence.
const ROUNDS: usize = 9;
/// The most tokens of an answer, so that the prompt hardly counts.
const ANSWER: u32 = 256;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(model) = arguments.next().map(PathBuf::from) else {
        eprintln!("guides MODEL [cpu|cuda] [ROUNDS]");
        std::process::exit(2);
    };
    let backend = match arguments.next().as_deref() {
        Some("cuda") => Backend::Cuda,
        _ => Backend::Cpu,
    };
    let rounds = arguments.next().and_then(|rounds| rounds.parse().ok());
    let rounds = rounds.unwrap_or(ROUNDS);
    let (words, masks) = masks::measure(&model);
    if rounds == 0 {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(answers(model, backend, rounds, &words, &masks));
}

/// The constraint of the answers, if there is one.
struct Case {
    name: &'static str,
    asked: Asked,
    /// The unguided case to compare with.
    free: usize,
    /// The time until the first request was accepted, and another one.
    accepted: [Duration; 2],
    /// Results per round, by number of callers.
    bursts: [Vec<Burst>; 2],
}

/// The repeated request.
#[derive(Clone)]
struct Asked {
    grammar: Option<Grammar>,
    /// Whether several forced tokens run in one step.
    forces: bool,
    /// The most tokens of an answer.
    most: u32,
}

impl Asked {
    const fn new(grammar: Option<Grammar>) -> Self {
        Self {
            grammar,
            forces: true,
            most: ANSWER,
        }
    }
}

/// Answers that were requested together.
struct Burst {
    /// Tokens per second.
    rate: f64,
    answers: u32,
    tokens: u32,
    /// Steps that repeated a row because its mask was late.
    repeats: u32,
}

/// Simultaneous callers.
const CALLERS: [u32; 2] = [1, 8];

impl Case {
    /// Requested twice, because a compiled grammar is no cost of each answer.
    async fn new(engine: &Handle, name: &'static str, asked: Asked, free: usize) -> Self {
        let (first, _) = say(engine, 0, 0, &asked).await;
        let (again, _) = say(engine, 0, 0, &asked).await;
        Self {
            name,
            asked,
            free,
            accepted: [first, again],
            bursts: [Vec::new(), Vec::new()],
        }
    }
}

async fn answers(model: PathBuf, backend: Backend, rounds: usize, words: &Words, masks: &[Took]) {
    let engine = engine::start(
        model,
        engine::settings(backend, 2048, engine::CONVERSATIONS),
    )
    .await;
    let mut measured = vec![Case::new(&engine, "no guide", Asked::new(None), 0).await];
    for (name, grammar) in guided(words, TEXTS) {
        let asked = Asked::new(Some(grammar));
        let mut case = Case::new(&engine, name, asked.clone(), 0).await;
        if name == BRIEF {
            let said = burst(&engine, CALLERS[1], rounds, &asked).await;
            let as_brief = Asked {
                most: said.tokens / said.answers,
                ..Asked::new(None)
            };
            let one_by_one = Asked {
                forces: false,
                ..asked
            };
            case.free = measured.len();
            let free = Case::new(&engine, AS_BRIEF, as_brief, case.free).await;
            let control = Case::new(&engine, ONE_BY_ONE, one_by_one, case.free).await;
            measured.extend([free, case, control]);
        } else {
            measured.push(case);
        }
    }
    // Other work on the machine affects all cases alike.
    for round in 0..rounds {
        for at in 0..measured.len() {
            let of = measured.len();
            let case = &mut measured[(at + round) % of];
            for (bursts, callers) in case.bursts.iter_mut().zip(CALLERS) {
                bursts.push(burst(&engine, callers, round, &case.asked).await);
            }
        }
    }
    engine.close();
    show(&measured, masks);
}

/// Prints a table: medians of all rounds, and the loss against the unguided case of the same round, with quartiles.
fn show(cases: &[Case], masks: &[Took]) {
    println!("\n{:<28}accepted, ms: first, again", "");
    for case in cases {
        let [first, again] = case.accepted.map(|time| micros(time) / 1e3);
        println!("{:<28}{first:>20.1}{again:>7.1}", case.name);
    }
    let mut masks = masks.iter();
    let mut known = Took::default();
    println!(
        "\n{:<28}{:>9}{:>9}{:>9}{:>11}{:>9}{:>19}{:>14}",
        "", "mask p50", "p99 us", "answers", "tokens/s", "lost", "quarters", "steps again"
    );
    for case in cases {
        if case.asked.grammar.is_some() && case.name != ONE_BY_ONE {
            known = *masks.next().unwrap_or(&known);
        }
        for (at, callers) in CALLERS.into_iter().enumerate() {
            let bursts = &case.bursts[at];
            let rates = sorted(bursts.iter().map(|burst| burst.rate));
            let lost = bursts.iter().zip(&cases[case.free].bursts[at]);
            let lost = sorted(lost.map(|(burst, free)| 100.0 * (1.0 - burst.rate / free.rate)));
            let repeats: u32 = bursts.iter().map(|burst| burst.repeats).sum();
            let tokens: u32 = bursts.iter().map(|burst| burst.tokens).sum();
            println!(
                "{:<28}{:>9.1}{:>9.1}{callers:>9}{:>11.1}{:>8.1}%{:>9.1} to {:>5.1}%{repeats:>7} of {tokens}",
                case.name,
                known[0],
                known[1],
                quantile(&rates, 50),
                quantile(&lost, 50),
                quantile(&lost, 25),
                quantile(&lost, 75),
            );
        }
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn quantile(sorted: &[f64], percent: usize) -> f64 {
    sorted[(sorted.len() - 1) * percent / 100]
}

/// Runs that many callers at once.
async fn burst(engine: &Handle, callers: u32, round: usize, asked: &Asked) -> Burst {
    let begun = Instant::now();
    let talks: Vec<_> = (0..callers)
        .map(|user| {
            let (engine, asked) = (engine.clone(), asked.clone());
            tokio::spawn(async move { talk(&engine, user, round, &asked).await })
        })
        .collect();
    let (mut answers, mut tokens, mut repeats) = (0, 0, 0);
    for talk in talks {
        let said = talk.await.expect("it ends");
        answers += said.answers;
        tokens += said.tokens;
        repeats += said.repeats;
    }
    Burst {
        rate: f64::from(tokens) / begun.elapsed().as_secs_f64(),
        answers,
        tokens,
        repeats,
    }
}

/// The result of one caller.
#[derive(Default)]
struct Said {
    answers: u32,
    tokens: u32,
    /// Steps that repeated.
    repeats: u32,
}

/// Asks until there are enough tokens.
async fn talk(engine: &Handle, user: u32, round: usize, asked: &Asked) -> Said {
    let mut said = Said::default();
    while said.tokens < ANSWER {
        let seed = u64::from(user) << 32 | (round as u64) << 16 | u64::from(said.answers);
        let (_, outcome) = say(engine, user, seed, asked).await;
        said.answers += 1;
        said.tokens += outcome.usage.completion_tokens;
        said.repeats += outcome.usage.repeated_steps;
    }
    said
}

/// Also returns the time until the request was accepted.
async fn say(engine: &Handle, caller: u32, seed: u64, asked: &Asked) -> (Duration, Outcome) {
    // Programs of one user, because compiled grammars are cached per user.
    let client = Client {
        name: format!(":1.{caller}").into(),
        user: 0,
    };
    let message = Message::new(
        Role::User,
        "What does the robot do next, and why? Answer at length.".to_owned(),
    );
    let sampling = Parameters {
        temperature: 0.8,
        seed,
        // With token events each token is chosen in its own step.
        logprobs: (!asked.forces).then_some(0),
        ..Parameters::default()
    };
    let options = Options {
        grammar: asked.grammar.clone(),
        ..Options::new(asked.most as usize, sampling)
    };
    let begun = Instant::now();
    let ticket = engine.generate(client, vec![message], options).await;
    let mut ticket = ticket.expect("it is accepted");
    let accepted = begun.elapsed();
    loop {
        if let Event::Done(outcome) = ticket.events.recv().await.expect("it ends") {
            assert_eq!(outcome.error, None);
            return (accepted, outcome);
        }
    }
}

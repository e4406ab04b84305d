//! Measures answers with guesses next to the same answers without: texts that quote and edit their prompt, JSON with values
//! from the prompt, free texts, and four callers at once.
//!
//! Run `cargo build --release` first, which builds gangliond. Then run `cargo run --release --example guesses -- MODEL
//! [cpu|cuda] [--sms N] [--record FILE | --replay FILE]`. A real model quotes its prompt; `--record` keeps its answers. A model with
//! random weights does not, so `--replay` makes its guesses right and wrong as they were for the real one. The program prints
//! medians and fails if an answer with guesses differs; it judges no speed.

mod engine;
mod late;
mod tasks;
mod traces;

use std::collections::BTreeMap;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use clap::Parser;
use ganglion::engine::{Client, Event, Handle, Options, Outcome};
use ganglion::guess::{Guess, MOST_GUESSES, Source};
use ganglion::guide::Grammars;
use ganglion::load::Backend;
use ganglion::model::{Checkpoint, Language};
use ganglion::sampler::Parameters;

use tasks::{Task, tasks};
use traces::Trace;

/// Measures answers with guesses.
#[derive(Parser)]
struct Arguments {
    model: PathBuf,
    #[arg(default_value = "cpu")]
    backend: String,
    /// Writes the answers of a real model
    #[arg(long)]
    record: Option<PathBuf>,
    /// Replays the guesses of these answers
    #[arg(long)]
    replay: Option<PathBuf>,
    /// Measures when the masks after the guesses of these answers arrive, and no answer
    #[arg(long)]
    masks: Option<PathBuf>,
    /// Measures on a partition of at least this many of the GPU's multiprocessors
    #[arg(long)]
    sms: Option<u32>,
    /// Measurements of each way; 0 records alone
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

/// Simultaneous callers, each with an answer of its own.
const CALLERS: [u32; 2] = [1, 4];
/// The next user.
static USERS: AtomicU32 = AtomicU32::new(1);
const WAYS: [&str; 3] = ["off", "lookup", "auto"];

fn main() -> ExitCode {
    // Templates and grammars run in processes of this program, which get no arguments of their own.
    if replays(parent_id()).unwrap_or(false) {
        ganglion::guide::replay(traces::recorded);
    }
    if let Some(code) =
        ganglion::confined::run_if_asked(&[ganglion::model::chat::TASK, ganglion::guide::TASK])
    {
        return code;
    }
    let arguments = Arguments::parse();
    let backend = match &*arguments.backend {
        "cuda" => Backend::Cuda,
        _ => Backend::Cpu,
    };
    if let Some(file) = &arguments.masks {
        masks(&arguments.model, &read(file));
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(measure(&arguments, backend));
    ExitCode::SUCCESS
}

/// Whether a process of this program replays answers.
fn replays(process: u32) -> std::io::Result<bool> {
    let arguments = std::fs::read(format!("/proc/{process}/cmdline"))?;
    let mut arguments = arguments.split(|byte| *byte == 0);
    Ok(arguments.any(|argument| argument == b"--replay"))
}

async fn measure(arguments: &Arguments, backend: Backend) {
    let mut settings = engine::settings(backend, 2048, engine::CONVERSATIONS);
    settings.cuda.multiprocessors = arguments.sms;
    let engine = engine::start(arguments.model.clone(), settings).await;
    let recorded = arguments.replay.as_ref().map(|file| read(file));
    println!(
        "{:<26}{:>8}{:>9}{:>9}{:>9}{:>8}{:>8}{:>18}",
        "tokens/s", "callers", "off", "lookup", "auto", "ratios", "", "right of guessed"
    );
    let mut traces = BTreeMap::new();
    for mut task in tasks() {
        let replayed = recorded.as_ref().and_then(|all| all.get(task.name));
        if let Some(replayed) = replayed {
            task.tokens = replayed.answer.len();
        }
        let own = trace(&engine, &task).await;
        if let Some(replayed) = replayed.filter(|_| task.grammar.is_some())
            && replayed.answer != own.answer
        {
            println!("{}: another answer than the recorded one", task.name);
        }
        let ways = match replayed.filter(|_| task.grammar.is_none()) {
            Some(trace) => [false, true].map(|auto| traces::replay(&own, trace, auto)),
            None => [false, true].map(|is_auto| Guess {
                source: Source::Lookup,
                most: MOST_GUESSES,
                is_auto,
            }),
        };
        for callers in CALLERS.into_iter().filter(|_| arguments.rounds > 0) {
            let mut rates = [const { Vec::new() }; WAYS.len()];
            let mut guessed = [(0, 0); WAYS.len()];
            for round in 0..arguments.rounds {
                for at in 0..WAYS.len() {
                    let way = (at + round) % WAYS.len();
                    let guess = way.checked_sub(1).map(|way| ways[way].clone());
                    let said = burst(&engine, callers, &task, guess.as_ref(), &own).await;
                    rates[way].push(said.rate);
                    guessed[way] = (said.accepted, said.proposed);
                }
            }
            let [off, lookup, auto] = rates.map(median);
            let shown = guessed[1..]
                .iter()
                .map(|(right, of)| format!("{right} of {of}"));
            println!(
                "{:<26}{callers:>8}{off:>9.1}{lookup:>9.1}{auto:>9.1}{:>8.2}{:>8.2}  {}",
                task.name,
                lookup / off,
                auto / off,
                shown.collect::<Vec<_>>().join(", "),
            );
        }
        traces.insert(task.name.to_owned(), own);
    }
    engine.close();
    if let Some(file) = &arguments.record {
        let text = serde_json::to_string(&traces).expect("it is JSON");
        std::fs::write(file, text).expect("it is written");
    }
}

fn read(answers: &Path) -> BTreeMap<String, Trace> {
    let text = std::fs::read_to_string(answers).expect("the file is there");
    serde_json::from_str(&text).expect("they are answers")
}

/// Prints the times of the masks after guesses, in microseconds: the median and the longest of each place.
fn masks(model: &Path, answers: &BTreeMap<String, Trace>) {
    let checkpoint = Checkpoint::open(model).expect("a model");
    let source = checkpoint.language_source().expect("it has a tokenizer");
    let language = Language::load(source).expect("it is known");
    let grammars = Grammars::new(language.words());
    for task in tasks() {
        if let (Some(grammar), Some(trace)) = (&task.grammar, answers.get(task.name)) {
            late::measure(&grammars, task.name, grammar, trace);
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the tokens of a task and its answer without guesses.
async fn trace(engine: &Handle, task: &Task) -> Trace {
    let (guess, seen) = traces::recorder();
    let (answer, outcome) = say(engine, 0, task, Some(&guess), true).await;
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let prompt = seen.iter().take(outcome.usage.prompt_tokens as usize);
    Trace {
        prompt: prompt.copied().collect(),
        answer,
    }
}

struct Burst {
    /// Tokens per second of all callers together.
    rate: f64,
    proposed: u32,
    accepted: u32,
}

/// The same answer for that many callers at once. Their times after the first token count. Each caller is a new user, whose
/// earlier answers do not tell this one, and has its prompt in the cache.
async fn burst(
    engine: &Handle,
    callers: u32,
    task: &Task,
    guess: Option<&Guess>,
    own: &Trace,
) -> Burst {
    let user = || USERS.fetch_add(1, Ordering::Relaxed);
    let users: Vec<_> = std::iter::repeat_with(user)
        .take(callers as usize)
        .collect();
    let brief = Task {
        tokens: 1,
        ..task.clone()
    };
    for user in &users {
        say(engine, *user, &brief, None, false).await;
    }
    let begun = Instant::now();
    let all: Vec<_> = users
        .into_iter()
        .map(|user| {
            let (engine, task, guess) = (engine.clone(), task.clone(), guess.cloned());
            tokio::spawn(async move { say(&engine, user, &task, guess.as_ref(), false).await })
        })
        .collect();
    let (mut tokens, mut alone, mut proposed, mut accepted) = (0, 0.0, 0, 0);
    for one in all {
        let (_, outcome) = one.await.expect("it ends");
        let usage = outcome.usage;
        let same = usage.completion_tokens as usize == own.answer.len();
        assert!(same, "{}: {usage:?} for {}", task.name, own.answer.len());
        tokens += usage.completion_tokens;
        alone = usage.tokens_per_second;
        proposed += usage.proposed_tokens;
        accepted += usage.accepted_tokens;
    }
    let together = f64::from(tokens) / begun.elapsed().as_secs_f64();
    Burst {
        rate: if callers == 1 { alone } else { together },
        proposed,
        accepted,
    }
}

/// Returns the tokens of an answer if `shows`, and how it ended.
async fn say(
    engine: &Handle,
    user: u32,
    task: &Task,
    guess: Option<&Guess>,
    shows: bool,
) -> (Vec<u32>, Outcome) {
    let client = Client {
        name: format!(":1.{user}").into(),
        user,
    };
    let sampling = Parameters {
        temperature: task.temperature,
        seed: 58,
        logprobs: shows.then_some(0),
        ..Parameters::default()
    };
    let options = Options {
        grammar: task.grammar.clone(),
        guess: guess.cloned(),
        ..Options::new(task.tokens, sampling)
    };
    let accepted = engine
        .generate(client, task.messages.clone(), options)
        .await;
    let mut ticket = accepted.expect("it is accepted");
    let mut tokens = Vec::new();
    loop {
        match ticket.events.recv().await.expect("it ends") {
            Event::Likelihood(likelihood) => tokens.push(likelihood.token),
            Event::Done(outcome) => {
                assert_eq!(outcome.error, None);
                return (tokens, outcome);
            }
            _ => {}
        }
    }
}

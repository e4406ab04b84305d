//! What it costs that answers fit something, in one table: how long it takes to know what may come next, and tokens a second
//! without a guide, with a small schema, with 260 tools, and with calls of which most must come so, which are also chosen one
//! by one, as a control; of one answer and of eight together.
//!
//! `cargo build --release`, for it needs a gangliond beside it, then `cargo run --release --example guides -- MODEL
//! [cpu|cuda]`, with a model of any vocabulary that has words. It prints figures; it judges nothing.

mod engine;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ganglion::engine::runner::Backend;
use ganglion::engine::{Client, Event, Handle, Message, Options, Outcome, Role};
use ganglion::guide::{self, Grammar, Grammars, Limits, Next, Thoughts};
use ganglion::model::language::Words;
use ganglion::model::{Checkpoint, Language};
use ganglion::sampler::Parameters;
use ganglion::tools::{Format, Tools, Writing};
use nix::time::{ClockId, clock_gettime};

/// Of a text, in characters: short ones, for masks of all kinds; and such that every answer is as long as it may be, for speeds.
const SHORT: &str = r#""maxLength": 60"#;
const LONG: &str = r#""minLength": 2500"#;
const TOOLS: usize = 260;
/// The case of which most must come as it does.
const BRIEF: &str = "260 tools, brief calls";
/// Tokens of an answer, at most.
const TOKENS: usize = 96;
/// The same, where speeds are measured: so many that the prompt hardly counts.
const ANSWER: u32 = 256;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(model) = arguments.next().map(PathBuf::from) else {
        eprintln!("guides MODEL [cpu|cuda]");
        std::process::exit(2);
    };
    let backend = match arguments.next().as_deref() {
        Some("cuda") => Backend::Cuda,
        _ => Backend::Cpu,
    };
    let (words, masks) = masks(&model);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(answers(model, backend, &words, &masks));
}

/// A small schema, the same tools as JSON alone and as calls in the format of Hermes and Qwen, with texts of that length, and
/// calls without texts.
fn guided(words: &Words, length: &str) -> [(&'static str, Grammar); 4] {
    let small = format!(
        r#"{{"type": "object", "properties": {{"action": {{"enum": ["go", "stop", "turn"]}}, "why": {{"type": "string", {length}}},
        "metres": {{"type": "number"}}}}, "required": ["action", "why", "metres"], "additionalProperties": false}}"#
    );
    let tool = |at| {
        format!(
            r#"{{"type": "object", "properties": {{"name": {{"const": "tool_{at}_of_the_robot"}}, "arguments": {{"type": "object",
            "properties": {{"x{at}": {{"type": "number"}}, "note": {{"type": "string", {length}}}}}, "required": ["x{at}", "note"],
            "additionalProperties": false}}}}, "required": ["name", "arguments"], "additionalProperties": false}}"#
        )
    };
    let tools: Vec<_> = (0..TOOLS).map(tool).collect();
    let function = |at| {
        format!(
            r#"{{"type": "function", "function": {{"name": "tool_{at}_of_the_robot", "parameters": {{"type": "object",
            "properties": {{"x{at}": {{"type": "number"}}, "note": {{"type": "string", {length}}}}}, "required": ["x{at}", "note"]}}}}}}"#
        )
    };
    let brief = |at| {
        format!(
            r#"{{"type": "function", "function": {{"name": "tool_{at}_of_the_robot", "parameters": {{"type": "object",
            "properties": {{"distance_in_metres": {{"type": "integer", "minimum": 0, "maximum": 99}},
            "direction_of_travel": {{"enum": ["forwards", "backwards"]}}}}, "required": ["distance_in_metres", "direction_of_travel"]}}}}}}"#
        )
    };
    let offer = |functions: Vec<String>| {
        let offer = format!("[{}]", functions.join(", "));
        Tools::read(&offer, Some("required"), true).expect("they are tools")
    };
    let brief = offer((0..TOOLS).map(brief).collect());
    let offer = offer((0..TOOLS).map(function).collect());
    let hermes = include_str!("../../config/tools/hermes.toml");
    let hermes = Format::parse("hermes", hermes).expect("it is a format");
    let writing = Writing::new(hermes.into(), words.clone());
    [
        ("a small schema", Grammar::JsonSchema(small)),
        (
            "260 tools",
            Grammar::JsonSchema(format!(r#"{{"anyOf": [{}]}}"#, tools.join(", "))),
        ),
        (
            "260 tools, called",
            Grammar::Tools {
                lark: writing.grammar(&offer, guide::spaced),
                bytes: 0,
            },
        ),
        (
            BRIEF,
            Grammar::Tools {
                lark: writing.grammar(&brief, guide::spaced),
                bytes: 0,
            },
        ),
    ]
}

/// Random answers: of what may come next, anything comes next. A mask's time is that of the processor.
fn masks(model: &Path) -> (Words, Vec<[f64; 2]>) {
    let checkpoint = Checkpoint::open(model).expect("a model");
    let source = checkpoint.language_source().expect("it has a tokenizer");
    let language = Language::load(source).expect("it is known");
    let vocabulary = u32::try_from(language.vocabulary()).expect("it is small");
    let begun = Instant::now();
    let grammars = Grammars::new(language.words());
    grammars.prepare();
    println!(
        "{vocabulary} tokens, made ready in {:.0} ms",
        1e3 * begun.elapsed().as_secs_f64()
    );
    println!(
        "\nwhat may come next, us        compiled    masks      p50      p99     most   forced"
    );
    let mut random = fastrand::Rng::with_seed(17);
    let mut told = Vec::new();
    for (name, grammar) in guided(&language.words(), SHORT) {
        let begun = Instant::now();
        let guide = || {
            let guide = grammars.guide(&grammar, Limits::USUAL, &[], Thoughts::NONE);
            guide.expect("it is allowed")
        };
        drop(guide());
        let compiled = begun.elapsed();
        let (mut times, mut forced, mut tokens) = (Vec::new(), 0, 0);
        for _ in 0..200 {
            // As each request has it: what its lexer finds, no other knows.
            let mut guide = guide();
            for _ in 0..TOKENS {
                let begun = thread_time();
                let follows = guide.follows().expect("it goes on");
                let token = match follows {
                    Next::Allowed(mask) => {
                        times.push(thread_time().saturating_sub(begun));
                        let may: Vec<_> = (0..vocabulary)
                            .filter(|token| mask.allows(*token))
                            .collect();
                        may[random.usize(0..may.len())]
                    }
                    Next::Forced(all) => {
                        forced += 1;
                        all[0]
                    }
                    Next::Anything | Next::Nothing => break,
                };
                tokens += 1;
                if language.is_end(token) {
                    break;
                }
                guide.take(token).expect("it was allowed");
            }
        }
        times.sort_unstable();
        told.push([micros_at(&times, 50), micros_at(&times, 99)]);
        println!(
            "{name:<28}{:>10.0}{:>9}{:>9.1}{:>9.1}{:>9.1}{:>8}%",
            micros(compiled),
            times.len(),
            micros_at(&times, 50),
            micros_at(&times, 99),
            micros_at(&times, 100),
            100 * forced / tokens.max(1)
        );
    }
    (language.words(), told)
}

/// Of sorted times, the one that so many in a hundred are below.
fn micros_at(times: &[Duration], share: usize) -> f64 {
    micros(times[(times.len() * share / 100).min(times.len() - 1)])
}

/// What others run meanwhile does not count.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.expect("there is one").into()
}

fn micros(time: Duration) -> f64 {
    1e6 * time.as_secs_f64()
}

async fn answers(model: PathBuf, backend: Backend, words: &Words, masks: &[[f64; 2]]) {
    let engine = engine::start(model, backend, 2048).await;
    println!(
        "\n                             mask p50    p99 us   accepted, ms: first, again   1 answer   8 together, tokens/s"
    );
    let mut cases = vec![("no guide", None, [0.0; 2], true)];
    for ((name, grammar), times) in guided(words, LONG).into_iter().zip(masks) {
        cases.push((name, Some(grammar.clone()), *times, true));
        if name == BRIEF {
            cases.push(("the same, one by one", Some(grammar), *times, false));
        }
    }
    for (name, grammar, [p50, p99], forces) in cases {
        let mut rates = Vec::new();
        // What is compiled once is not of each answer.
        let (first, _) = say(&engine, 0, 0, grammar.clone(), forces).await;
        let (again, _) = say(&engine, 0, 0, grammar.clone(), forces).await;
        for callers in [1, 8] {
            let begun = Instant::now();
            let talks: Vec<_> = (0..callers)
                .map(|user| {
                    let (engine, grammar) = (engine.clone(), grammar.clone());
                    tokio::spawn(async move { talk(&engine, user, grammar, forces).await })
                })
                .collect();
            let mut tokens = 0;
            for talk in talks {
                tokens += talk.await.expect("it ends");
            }
            rates.push(f64::from(tokens) / begun.elapsed().as_secs_f64());
        }
        println!(
            "{name:<28}{p50:>9.1}{p99:>10.1}{:>21.1}{:>7.1}{:>11.1}{:>13.1}",
            micros(first) / 1e3,
            micros(again) / 1e3,
            rates[0],
            rates[1]
        );
    }
    engine.close();
}

/// Asks until there are tokens enough; returns how many.
async fn talk(engine: &Handle, user: u32, grammar: Option<Grammar>, forces: bool) -> u32 {
    let (mut tokens, mut asked) = (0, 0);
    while tokens < ANSWER {
        let seed = u64::from(user) << 32 | asked;
        let (_, outcome) = say(engine, user, seed, grammar.clone(), forces).await;
        tokens += outcome.usage.completion_tokens;
        asked += 1;
    }
    tokens
}

/// Returns how long it took until the request was accepted, too.
async fn say(
    engine: &Handle,
    user: u32,
    seed: u64,
    grammar: Option<Grammar>,
    forces: bool,
) -> (Duration, Outcome) {
    let client = Client {
        name: format!(":1.{user}").into(),
        user,
    };
    let message = Message::new(
        Role::User,
        "What does the robot do next, and why? Answer at length.".to_owned(),
    );
    let sampling = Parameters {
        temperature: 0.8,
        seed,
        // Each token of which that is told is chosen in a step of its own.
        logprobs: (!forces).then_some(0),
        ..Parameters::default()
    };
    let options = Options {
        grammar,
        ..Options::new(ANSWER as usize, sampling)
    };
    let begun = Instant::now();
    let asked = engine.generate(client, vec![message], options).await;
    let mut ticket = asked.expect("it is accepted");
    let accepted = begun.elapsed();
    loop {
        if let Event::Done(outcome) = ticket.events.recv().await.expect("it ends") {
            assert_eq!(outcome.error, None);
            return (accepted, outcome);
        }
    }
}

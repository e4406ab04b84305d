//! How many callers are served at once: tokens a second of 1, 2, 4 and 8 of them together, how long a short question waits
//! beside long answers, beside whoever wastes the engine's time and beside whoever asks for `realtime` without the right (as
//! long as it is not root that runs this), what a long prompt does to those who are answered, and what a
//! beginning costs that is held already.
//!
//! `cargo build --release`, for it needs a gangliond beside it, then `cargo run --release --example callers -- MODEL
//! [cpu|cuda [CONTEXT]]`: answers of 4,000 tokens and a prompt of 20,000 need a context of 21,000. It prints figures, and how many answers are as those of each caller alone; it judges nothing.

mod engine;
mod unentitled;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use ganglion::engine::runner::Backend;
use ganglion::engine::{Client, Event, Handle, Message, Options, Outcome, Priority, Role};
use ganglion::sampler::Parameters;

use unentitled::Unentitled;

const QUESTIONS: u32 = 20;
/// With and without who wastes, in turn.
const RUNS: u32 = 5;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(model) = arguments.next() else {
        eprintln!("callers MODEL [cpu|cuda [CONTEXT]]");
        std::process::exit(2);
    };
    let backend = match arguments.next().as_deref() {
        Some("cuda") => Backend::Cuda,
        _ => Backend::Cpu,
    };
    let context = arguments
        .next()
        .map_or(2048, |context| context.parse().expect("a number of tokens"));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(measure(model.into(), backend, context));
}

async fn measure(model: PathBuf, backend: Backend, context: usize) {
    let engine = engine::start(model, backend, context).await;
    // Each alone, to be held against what they are told together; every other one is sampled.
    let mut alone = Vec::new();
    for user in 0..8 {
        alone.push(ask(&engine, user, 128, Priority::Normal).await.text);
    }
    println!("callers  tokens/s in all  times one  answers as alone");
    let mut one = None;
    for callers in [1, 2, 4, 8] {
        let begun = Instant::now();
        let talks: Vec<_> = (0..callers)
            .map(|user| {
                let engine = engine.clone();
                tokio::spawn(async move { ask(&engine, user, 128, Priority::Normal).await })
            })
            .collect();
        let (mut tokens, mut equal) = (0, 0);
        for (talk, alone) in talks.into_iter().zip(&alone) {
            let heard = talk.await.expect("it ends");
            tokens += heard.outcome.usage.completion_tokens;
            equal += usize::from(heard.text == *alone);
        }
        let rate = f64::from(tokens) / begun.elapsed().as_secs_f64();
        let times = rate / *one.get_or_insert(rate);
        println!("{callers:>7}  {rate:>15.1}  {times:>9.2}  {equal} of {callers}");
    }

    println!("\nfirst token of a short question, ms            p50      p99");
    questions(&engine, "alone", Priority::Normal).await;
    for (who, priority) in [
        ("realtime", Priority::Realtime),
        ("normal", Priority::Normal),
    ] {
        let most = 4000.min(context - 256);
        let busy: Vec<_> = (0..4)
            .map(|user| {
                let engine = engine.clone();
                // One that ends before the questions do begins again.
                tokio::spawn(async move {
                    loop {
                        ask(&engine, user, most, Priority::Background).await;
                    }
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_secs(1)).await;
        questions(&engine, &format!("{who}, beside 4 background"), priority).await;
        busy.iter().for_each(tokio::task::JoinHandle::abort);
        engine.idle().await;
    }

    between_tokens(&engine, context).await;
    beside_waste(&engine).await;
    beside_refused(&engine).await;

    println!("\nfirst token after about 1500 tokens of rules, ms");
    let rules = "all work and no play ".repeat(300);
    for (what, question) in [
        ("read", "Who works?"),
        ("held for another session", "Who plays?"),
    ] {
        let rules = Message::new(Role::System, rules.clone());
        let question = Message::new(Role::User, question.to_owned());
        let heard = hear(&engine, 40, vec![rules, question], 1, Priority::Normal).await;
        println!("{what:<44}{:>8.1}", heard.first.as_secs_f64() * 1e3);
    }
    engine.close();
}

/// How far apart tokens of several answers come, undisturbed and beside prompts that are being read.
async fn between_tokens(engine: &Handle, context: usize) {
    println!("\nbetween two tokens of 4 answers, ms             p50      p99");
    for tokens in [0, 1200, 20_000.min(context - 512)] {
        let talks: Vec<_> = (0..4)
            .map(|user| {
                let engine = engine.clone();
                tokio::spawn(async move { ask(&engine, user, 192, Priority::Normal).await })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(500)).await;
        if tokens > 0 {
            // A word a token, but for those of the template.
            let long = "all work and no play ".repeat(tokens / 5);
            drop(say(engine, 9, &long, 1, Priority::Normal).await);
        }
        let mut gaps = Vec::new();
        for talk in talks {
            gaps.extend(talk.await.expect("it ends").gaps);
        }
        let what = match tokens {
            0 => "undisturbed".to_owned(),
            tokens => format!("beside a prompt of about {tokens} tokens"),
        };
        show(&what, gaps);
    }
}

/// Short questions with and without those who waste the engine's time, in turn.
async fn beside_waste(engine: &Handle) {
    println!("\nfirst token of a short question, ms            p50      p99");
    for run in 1..=RUNS {
        for wasted in [false, true] {
            let wasting = wasted.then(|| [waste(engine, true), waste(engine, false)]);
            let who = if wasted { "beside who wastes" } else { "alone" };
            questions(
                engine,
                &format!("{who}, run {run} of {RUNS}"),
                Priority::Normal,
            )
            .await;
            wasting
                .iter()
                .flatten()
                .for_each(tokio::task::JoinHandle::abort);
            engine.idle().await;
        }
    }
}

/// Short questions with and without those who are refused all the time, in turn.
async fn beside_refused(engine: &Handle) {
    println!("\nfirst token of a short question, ms            p50      p99");
    let Some(unentitled) = Unentitled::new(engine).await else {
        return;
    };
    for run in 1..=RUNS {
        let what = format!("alone, run {run} of {RUNS}");
        questions(engine, &what, Priority::Normal).await;
        let asks = unentitled.asks();
        let what = format!("beside who is refused, run {run} of {RUNS}");
        questions(engine, &what, Priority::Normal).await;
        assert!(
            !asks.is_finished(),
            "it was not refused, or the bus has gone"
        );
        asks.abort();
    }
}

/// What became of a question.
struct Heard {
    text: String,
    outcome: Outcome,
    /// From the question to the first text.
    first: Duration,
    /// Between two pieces of text.
    gaps: Vec<Duration>,
}

async fn ask(engine: &Handle, user: u32, max_tokens: usize, priority: Priority) -> Heard {
    let topic = [
        "a river",
        "two robots",
        "the sea",
        "a city",
        "trees",
        "a clock",
        "snow",
        "bread",
    ];
    let text = format!("Tell me a long story about {}.", topic[user as usize % 8]);
    say(engine, user, &text, max_tokens, priority).await
}

async fn say(
    engine: &Handle,
    user: u32,
    question: &str,
    max_tokens: usize,
    priority: Priority,
) -> Heard {
    let question = Message::new(Role::User, question.to_owned());
    hear(engine, user, vec![question], max_tokens, priority).await
}

async fn hear(
    engine: &Handle,
    user: u32,
    messages: Vec<Message>,
    max_tokens: usize,
    priority: Priority,
) -> Heard {
    let client = Client {
        name: format!(":1.{user}").into(),
        user,
    };
    let sampling = Parameters {
        temperature: if user % 2 == 1 { 0.8 } else { 0.0 },
        repetition_penalty: 1.1,
        seed: user.into(),
        ..Parameters::default()
    };
    let options = Options {
        priority,
        ..Options::new(max_tokens, sampling)
    };
    let begun = Instant::now();
    let asked = engine.generate(client, messages, options).await;
    let mut ticket = asked.expect("it is accepted");
    let (mut text, mut first, mut last, mut gaps) = (String::new(), None, begun, Vec::new());
    loop {
        match ticket.events.recv().await.expect("it ends") {
            Event::Text(more) => {
                text += &more;
                let now = Instant::now();
                if first.is_some() {
                    gaps.push(now - last);
                }
                first.get_or_insert(now - begun);
                last = now;
            }
            Event::Likelihood(_) | Event::Reasoning(_) | Event::Call(_) => {}
            Event::Done(outcome) => {
                let first = first.unwrap_or_else(|| begun.elapsed());
                return Heard {
                    text,
                    outcome,
                    first,
                    gaps,
                };
            }
        }
    }
}

/// Wastes the engine's time until it is aborted: opens a session, fills it, and then either leaves in the middle of the answer or
/// never reads it.
fn waste(engine: &Handle, leaves: bool) -> tokio::task::JoinHandle<()> {
    let engine = engine.clone();
    tokio::spawn(async move {
        let user = 50 + u32::from(leaves);
        for number in 0_u64.. {
            let client = Client {
                name: format!(":1.{user}").into(),
                user,
            };
            let Ok(session) = engine.open_session(client, Vec::new()) else {
                return;
            };
            let text = format!("{number} ") + &"all work and no play ".repeat(100);
            let options = Options::new(256, Parameters::default());
            let Ok(mut ticket) = engine.send(session, text, options).await else {
                return;
            };
            if leaves {
                let _first = ticket.events.recv().await;
            } else {
                while engine.session(session).is_some_and(|session| session.busy) {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
            engine.close_session(session);
        }
    })
}

/// Short questions, one after another, each another one.
async fn questions(engine: &Handle, what: &str, priority: Priority) {
    let mut firsts = Vec::new();
    for number in 0..QUESTIONS {
        let text = format!("Is {number} an even number?");
        firsts.push(say(engine, 10 + number, &text, 4, priority).await.first);
    }
    show(what, firsts);
}

fn show(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| match times.get((times.len() * percent / 100).min(times.len() - 1)) {
        Some(time) => time.as_secs_f64() * 1e3,
        None => f64::NAN,
    };
    println!("{what:<44}{:>8.1} {:>8.1}", at(50), at(99));
}

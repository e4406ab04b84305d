//! Measures how many callers the engine serves at once. It prints tokens per second for 1, 2, 4 and 8 callers. It also
//! prints the first-token time of a short question next to long answers, a long prompt, abusive clients and clients
//! without the right to `realtime` (not as root). Further figures: the gaps that a long prompt causes in running
//! answers, and the cost of a prefix that is already cached.
//!
//! Run `cargo build --release` first, which builds gangliond. Then run `cargo run --release --example callers -- MODEL
//! [cpu|cuda [CONTEXT [QUESTIONS]]]`. Answers of 4,000 tokens and a prompt of 20,000 need a context of 21,000, which is
//! the default on a GPU, with 1,000 questions per figure. A CPU defaults to 4,096 and 40. The program prints figures
//! and the number of answers that equal those of each caller alone; it judges nothing.

mod asking;
mod engine;
mod unentitled;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ganglion::engine::{Handle, Message, Priority, Role};
use ganglion::load::Backend;

use asking::{AnswerPart, Answers, Words, asked, hear, options, prompts, story, waste};
use unentitled::Unentitled;

/// Runs alternate between with and without the abusive clients.
const RUNS: usize = 5;
/// The longest time of a measurement that has at least one figure.
const LONGEST: Duration = Duration::from_secs(30);

/// The measured engine and the measurement's size.
struct Bench {
    engine: Handle,
    words: Words,
    context: usize,
    /// The least number of questions per figure; alternating runs share it.
    questions: usize,
    /// Short questions so far. Each is a new question of a new user, without a cached prefix.
    asked: AtomicU32,
}

/// Milliseconds.
#[derive(Clone, Copy)]
struct Figure {
    p50: f64,
    p99: f64,
    of: usize,
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let number = |at: usize, default| {
        let argument = arguments.get(at);
        argument.map_or(default, |number| number.parse().expect("a number"))
    };
    let Some(model) = arguments.first() else {
        eprintln!("callers MODEL [cpu|cuda [CONTEXT [QUESTIONS]]]");
        std::process::exit(2);
    };
    let (backend, context, questions) = match arguments.get(1).map(String::as_str) {
        Some("cuda") => (Backend::Cuda, 21_000, 1000),
        _ => (Backend::Cpu, 4096, 40),
    };
    let (context, questions) = (number(2, context), number(3, questions));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(measure(model.into(), backend, context, questions));
}

async fn measure(model: PathBuf, backend: Backend, context: usize, questions: usize) {
    let engine = engine::start(
        model,
        engine::settings(backend, context, engine::CONVERSATIONS),
    )
    .await;
    let bench = Bench {
        words: Words::of(&engine).await,
        engine,
        context,
        questions: questions.max(1),
        asked: AtomicU32::new(10_000),
    };
    bench.together().await;
    println!("\nms                                                        p50      p99       of");
    bench.first_tokens().await;
    bench.between_tokens().await;
    bench.after_a_prefix().await;
    println!(
        "\nfirst token, {RUNS} runs in turn, ms: medians     p50 alone     with      p99 alone     with    ratio"
    );
    bench.next_to_abuse().await;
    let answers = Answers::begin(&bench.engine, 4, bench.long(), Priority::Background).await;
    println!("  with 4 background answers");
    bench.next_to_abuse().await;
    drop(answers);
    bench.engine.idle().await;
    bench.next_to_refused().await;
    bench.engine.close();
}

impl Bench {
    /// A story without token events.
    async fn ask(&self, user: u32, tokens: usize) -> AnswerPart {
        let options = options(user, tokens, Priority::Normal, false);
        hear(&self.engine, user, story(user), options, |_| {}).await
    }

    /// The time from a question to its first token.
    async fn first(&self, user: u32, messages: Vec<Message>, priority: Priority) -> Duration {
        let options = options(user, 1, priority, true);
        let heard = hear(&self.engine, user, messages, options, |_| {}).await;
        heard.first
    }

    async fn together(&self) {
        // Each caller alone, to compare with the answers together. Every other caller samples.
        let mut alone = Vec::new();
        for user in 0..8 {
            alone.push(self.ask(user, 128).await.text);
        }
        println!("callers  tokens/s in all  times one  answers as alone");
        let mut one = None;
        for callers in [1, 2, 4, 8] {
            let begun = Instant::now();
            let all = (0..callers).map(|user| self.ask(user, 128));
            let (mut tokens, mut equal) = (0, 0);
            for (heard, alone) in futures_util::future::join_all(all).await.iter().zip(&alone) {
                tokens += heard.outcome.usage.completion_tokens;
                equal += usize::from(heard.text == *alone);
            }
            let rate = f64::from(tokens) / begun.elapsed().as_secs_f64();
            let times = rate / *one.get_or_insert(rate);
            println!("{callers:>7}  {rate:>15.1}  {times:>9.2}  {equal} of {callers}");
        }
    }

    /// The most tokens of a long answer in the background.
    fn long(&self) -> usize {
        4000.min(self.context - 256)
    }

    /// The first-token time of a short question.
    async fn first_tokens(&self) {
        for priority in [Priority::Realtime, Priority::Normal] {
            let name = priority.name();
            let alone = self.questions(self.questions, priority).await;
            show(&format!("first token of {name}, alone"), alone);
            let background =
                Answers::begin(&self.engine, 4, self.long(), Priority::Background).await;
            let with = self.questions(self.questions, priority).await;
            show("  with 4 background answers", with);
            drop(background);
            self.engine.idle().await;
        }
        let tokens = self.prompt();
        let reading = prompts(&self.engine, self.words.about(tokens));
        let with = self.questions(self.questions, Priority::Normal).await;
        show(&format!("  with prompts of about {tokens} tokens"), with);
        reading.abort();
        self.engine.idle().await;
    }

    /// Tokens of a long prompt, roughly and without its template.
    fn prompt(&self) -> usize {
        20_000.min(self.context - 512)
    }

    /// The gaps between tokens of several answers, alone and during the prefill of prompts.
    async fn between_tokens(&self) {
        let answers = Answers::begin(&self.engine, 4, self.long(), Priority::Normal).await;
        let (begun, mut gaps) = (Instant::now(), Vec::new());
        while gaps.len() < self.questions {
            tokio::time::sleep(Duration::from_millis(50)).await;
            gaps = answers.gaps(begun, Instant::now());
        }
        show("between two tokens of 4 answers", gaps);
        for tokens in [1200.min(self.prompt()), self.prompt()] {
            let (begun, mut gaps) = (Instant::now(), Vec::new());
            // A new user each time, whose prefix is not cached.
            for user in 3000.. {
                let from = Instant::now();
                self.first(user, asked(&self.words.about(tokens)), Priority::Normal)
                    .await;
                gaps.extend(answers.gaps(from, Instant::now()));
                if gaps.len() >= self.questions || begun.elapsed() > LONGEST {
                    break;
                }
            }
            show(&format!("  with a prompt of about {tokens} tokens"), gaps);
        }
        drop(answers);
        self.engine.idle().await;
    }

    /// The cost of a turn's prefix: without 2,000 tokens of rules, with them, and after another request has prefilled
    /// them.
    async fn after_a_prefix(&self) {
        let tokens = 2000.min(self.context - 512);
        let with_rules = |number: usize| {
            let rules = Message::new(Role::System, self.words.about(tokens));
            let mut messages = asked(&format!("Who plays at {number}?"));
            messages.insert(0, rules);
            messages
        };
        let (mut without, mut read, mut held) = (Vec::new(), Vec::new(), Vec::new());
        self.first(40, with_rules(0), Priority::Normal).await;
        for (number, user) in (1..=10).zip(4000..) {
            let short = asked(&format!("Who plays at {number}?"));
            without.push(self.first(41, short, Priority::Normal).await);
            read.push(self.first(user, with_rules(number), Priority::Normal).await);
            held.push(self.first(40, with_rules(number), Priority::Normal).await);
        }
        show("first token without a beginning", without);
        show(&format!("  after about {tokens} tokens of rules"), read);
        show("  which are held for another request", held);
    }

    /// Short questions next to abusive clients.
    async fn next_to_abuse(&self) {
        let before = self.engine.status().borrow().queue_length;
        let mut figures = Vec::new();
        for _ in 0..RUNS {
            let alone = self.of_a_run().await;
            let waste = |leaves| waste(&self.engine, leaves, self.words.about(500));
            let wasting = [waste(true), waste(false)];
            let with = self.of_a_run().await;
            let ended = wasting.iter().any(tokio::task::JoinHandle::is_finished);
            assert!(!ended, "they were refused");
            wasting.iter().for_each(tokio::task::JoinHandle::abort);
            let _ = self
                .engine
                .status()
                .wait_for(|status| status.queue_length <= before)
                .await;
            figures.push((alone, with));
        }
        compare("  clients that open, fill and abandon sessions", &figures);
    }

    /// Short questions next to clients whose requests are all refused.
    async fn next_to_refused(&self) {
        let Some(unentitled) = Unentitled::new(&self.engine).await else {
            return;
        };
        let mut figures = Vec::new();
        for _ in 0..RUNS {
            let alone = self.of_a_run().await;
            let asks = unentitled.asks();
            let with = self.of_a_run().await;
            assert!(
                !asks.is_finished(),
                "it was not refused, or the bus has gone"
            );
            asks.abort();
            figures.push((alone, with));
        }
        compare("  clients without the right to realtime", &figures);
    }

    async fn of_a_run(&self) -> Figure {
        let questions = self.questions.div_ceil(RUNS).max(20);
        figure(self.questions(questions, Priority::Normal).await)
    }

    /// Short questions in sequence, each a new one of a new user.
    async fn questions(&self, questions: usize, priority: Priority) -> Vec<Duration> {
        let (begun, mut firsts) = (Instant::now(), Vec::new());
        for _ in 0..questions {
            let user = self.asked.fetch_add(1, Ordering::Relaxed);
            let question = asked(&format!("Is {user} an even number?"));
            firsts.push(self.first(user, question, priority).await);
            if begun.elapsed() > LONGEST {
                break;
            }
        }
        firsts
    }
}

fn figure(mut times: Vec<Duration>) -> Figure {
    times.sort_unstable();
    // The 99th of a hundred, because a single bad moment decides the last one.
    let at = |percent: usize| match times.get((times.len() * percent).div_ceil(100).max(1) - 1) {
        Some(time) => time.as_secs_f64() * 1e3,
        None => f64::NAN,
    };
    Figure {
        p50: at(50),
        p99: at(99),
        of: times.len(),
    }
}

fn show(what: &str, times: Vec<Duration>) {
    let Figure { p50, p99, of } = figure(times);
    println!("{what:<50} {p50:>10.2} {p99:>8.2} {of:>8}");
}

/// Medians of runs without and with the other clients.
fn compare(name: &str, runs: &[(Figure, Figure)]) {
    let median = |of: &dyn Fn(&(Figure, Figure)) -> f64| {
        let mut all: Vec<_> = runs.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let p50 = [median(&|run| run.0.p50), median(&|run| run.1.p50)];
    let p99 = [median(&|run| run.0.p99), median(&|run| run.1.p99)];
    let each = runs.iter().map(|(alone, with)| {
        format!("{:.2}", with.p50 / alone.p50) + &format!(",{:.2}", with.p99 / alone.p99)
    });
    println!(
        "{name:<46} {:>10.2} {:>8.2} {:>14.2} {:>8.2} {:>8.2}   {}",
        p50[0],
        p50[1],
        p99[0],
        p99[1],
        p99[1] / p99[0],
        each.collect::<Vec<_>>().join(" ")
    );
}

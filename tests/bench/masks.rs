//! Measures the time to compute a mask, by the clock of the process that computes it.

use std::path::Path;
use std::time::{Duration, Instant};

use ganglion::guide::{Grammar, Grammars, Guide, Limits, Next, Soon, Thoughts};
use ganglion::model::language::Words;
use ganglion::model::{Checkpoint, Language};
use nix::time::{ClockId, clock_gettime};

use crate::cases::{TEXT, anew, guided};

/// Number of answers under a grammar without cached states, and under one with them.
const ANSWERS: [usize; 2] = [20, 200];
/// The most tokens of an answer.
const TOKENS: usize = 96;
/// The most frequent tokens of texts, which come first in a vocabulary.
const COMMON: u32 = 20_000;

/// The p50 and p99 in microseconds.
pub(crate) type Took = [f64; 2];

/// Times random answers: each token is any allowed token, or any allowed frequent token, with and without cached
/// states. It also times the engine thread's own work per token. Returns the masks of frequent tokens, as in most
/// answers.
pub(crate) fn measure(model: &Path) -> (Words, Vec<Took>) {
    let checkpoint = Checkpoint::open(model).expect("a model");
    let source = checkpoint.language_source().expect("it has a tokenizer");
    let language = Language::load(source).expect("it is known");
    let begun = Instant::now();
    let grammars = Grammars::new(language.words());
    grammars.prepare();
    println!(
        "{} tokens, made ready in {:.0} ms",
        language.vocabulary(),
        1e3 * begun.elapsed().as_secs_f64()
    );
    println!(
        "\n{:<26}{:<16}{:>12}{:>8}{:>20}{:>28}{:>8}",
        "us",
        "",
        "compiled",
        "masks",
        "p50      p99     most",
        "at once: p50      p99     most",
        "forced"
    );
    let mut masks = Vec::new();
    for (name, grammar) in guided(&language.words(), TEXT) {
        let guide = |grammar: &Grammar| {
            let guide = grammars.guide(grammar, Limits::USUAL, &[], Thoughts::NONE);
            guide.expect("it is allowed")
        };
        let mut took = Took::default();
        for (what, common) in [("any token", false), ("common tokens", true)] {
            for (first, answers) in [(true, ANSWERS[0]), (false, ANSWERS[1])] {
                let mut times = Times::new(&language, common);
                for time in 0..answers {
                    let grammar = if first {
                        anew(&grammar, 1 + 2 * time + usize::from(common))
                    } else {
                        grammar.clone()
                    };
                    let begun = Instant::now();
                    let guide = guide(&grammar);
                    times.compiled = times.compiled.max(begun.elapsed());
                    times.answer(guide);
                }
                let when = if first { "first" } else { "" };
                took = times.show(name, &format!("{what} {when}"));
            }
        }
        masks.push(took);
    }
    (language.words(), masks)
}

struct Times<'a> {
    language: &'a Language,
    common: bool,
    random: fastrand::Rng,
    compiled: Duration,
    masks: Vec<Duration>,
    at_once: Vec<Duration>,
    forced: usize,
    tokens: usize,
}

impl<'a> Times<'a> {
    fn new(language: &'a Language, common: bool) -> Self {
        Self {
            language,
            common,
            random: fastrand::Rng::with_seed(17),
            compiled: Duration::ZERO,
            masks: Vec::new(),
            at_once: Vec::new(),
            forced: 0,
            tokens: 0,
        }
    }

    fn answer(&mut self, mut guide: Guide) {
        let vocabulary = u32::try_from(self.language.vocabulary()).expect("it is small");
        for _ in 0..TOKENS {
            let begun = thread_time();
            let known = guide.follows_soon().expect("it goes on");
            let mut at_once = thread_time().saturating_sub(begun);
            let token = match known {
                Soon::Later(promise) => {
                    let Some(mask) = promise.wait() else {
                        // The answer is complete, or has failed.
                        guide.follows_soon().expect("it goes on");
                        break;
                    };
                    self.masks.push(guide.took());
                    let allowed = |token: &u32| mask.allows(*token);
                    let mut may: Vec<u32> = if self.common {
                        (0..COMMON).filter(allowed).collect()
                    } else {
                        Vec::new()
                    };
                    if may.is_empty() {
                        may = (0..vocabulary).filter(allowed).collect();
                    }
                    may[self.random.usize(0..may.len())]
                }
                Soon::Known(Next::Forced(all)) => {
                    self.forced += 1;
                    all[0]
                }
                Soon::Known(_) => break,
            };
            self.tokens += 1;
            if self.language.is_end(token) {
                break;
            }
            let begun = thread_time();
            guide.take(token);
            at_once += thread_time().saturating_sub(begun);
            self.at_once.push(at_once);
        }
    }

    fn show(mut self, name: &str, what: &str) -> Took {
        self.masks.sort_unstable();
        self.at_once.sort_unstable();
        let [masks, at_once] = [&self.masks, &self.at_once];
        println!(
            "{name:<26}{what:<20}{:>8.0}{:>8}{:>9.1}{:>9.1}{:>9.1}{:>13.1}{:>9.1}{:>9.1}{:>8}%",
            micros(self.compiled),
            masks.len(),
            micros_at(masks, 50),
            micros_at(masks, 99),
            micros_at(masks, 100),
            micros_at(at_once, 50),
            micros_at(at_once, 99),
            micros_at(at_once, 100),
            100 * self.forced / self.tokens.max(1)
        );
        [50, 99].map(|share| micros_at(masks, share))
    }
}

/// Returns a percentile of sorted times.
fn micros_at(times: &[Duration], share: usize) -> f64 {
    let last = times.len().saturating_sub(1);
    let time = times.get((times.len() * share / 100).min(last));
    time.copied().map_or(0.0, micros)
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.expect("there is one").into()
}

pub(crate) fn micros(time: Duration) -> f64 {
    1e6 * time.as_secs_f64()
}

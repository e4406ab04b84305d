//! Measures when the masks after guesses arrive, for the answers of a real model, without the model.
//!
//! The guesses are those that `lookup` makes for these answers, and only the right ones count: the step that has them waits
//! for their masks.

use std::time::{Duration, Instant};

use ganglion::guess::MOST_GUESSES;
use ganglion::guide::{Grammar, Grammars, Limits, Soon, Thoughts};

use crate::traces::Trace;

/// Answers under each grammar. The first ones find no cached states.
const ANSWERS: usize = 6;

/// Prints the times from a request to the mask after each right guess: the median and the longest, of the first answer and of
/// those after it.
pub(crate) fn measure(grammars: &Grammars, name: &str, grammar: &Grammar, trace: &Trace) {
    let mut times = [const { Vec::new() }; 2];
    for number in 0..ANSWERS {
        answer(grammars, grammar, trace, &mut times[number.min(1)]);
    }
    for (what, times) in ["first", "later"].into_iter().zip(times) {
        let mut all = [const { Vec::new() }; MOST_GUESSES];
        for (place, time) in times {
            all[place].push(time);
        }
        print!("{name:<22}{what:<6}");
        for mut times in all {
            times.sort_unstable();
            let at = |share: usize| times.get(times.len() * share / 100).copied();
            let micros = |time: Option<Duration>| time.unwrap_or_default().as_micros();
            print!("{:>7}{:>6}", micros(at(50)), micros(times.last().copied()));
        }
        println!();
    }
}

/// One answer, with the times of its masks by their places.
fn answer(
    grammars: &Grammars,
    grammar: &Grammar,
    trace: &Trace,
    times: &mut Vec<(usize, Duration)>,
) {
    let guide = grammars.guide(grammar, Limits::USUAL, &[], Thoughts::NONE);
    let mut guide = guide.expect("it is allowed");
    let guesses = trace.guesses();
    // The mask of the first token.
    if let Ok(Soon::Later(first)) = guide.follows_soon() {
        let _ = first.wait();
    }
    let (mut taken, mut at) = (0, 0);
    while at + 1 < trace.answer.len() {
        guide.take_all(&trace.answer[taken..=at]);
        let right = guesses[at].1;
        let next = &trace.answer[at + 1..=at + right];
        let begun = Instant::now();
        let masks = guide.guess(next).unwrap_or_default();
        for (place, mask) in masks.iter().enumerate() {
            let is_there = mask.wait().is_some();
            if is_there && place < MOST_GUESSES {
                times.push((place, begun.elapsed()));
            }
        }
        (taken, at) = (at + 1, at + 1 + right);
    }
}

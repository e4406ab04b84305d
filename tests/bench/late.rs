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
        taken = at + 1;
        let begun = Instant::now();
        let forced = guide.force(MOST_GUESSES).len();
        let right = guesses.get(at).map_or(0, |(_, right)| *right);
        let next = trace.answer.get(taken..=at + right).unwrap_or_default();
        let masks = if forced > 0 { None } else { guide.guess(next) };
        for (place, mask) in masks.iter().flatten().enumerate() {
            let is_there = mask.wait().is_some();
            if is_there && place < MOST_GUESSES {
                times.push((place, begun.elapsed()));
            }
        }
        // The mask of the token that is chosen next.
        if let Ok(Soon::Later(next)) = guide.follows_soon() {
            let _ = next.wait();
        }
        if let Some(error) = guide.error() {
            eprintln!("{at}: {error}");
            break;
        }
        taken += forced;
        at = taken + if forced > 0 { 0 } else { right };
    }
}

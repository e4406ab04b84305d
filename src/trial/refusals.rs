//! Refuses every call of a recording and a replay once: before it runs, after it has run, and with a lost capture. The
//! text continues, each step runs once, and the graph recovers. Runs on any executor.
//!
//! A wrong result is a text that names what differs.

use std::fmt::Debug;

use crate::fault::{Call, Fault, How};
use crate::graph::{Counters, Mode, State};
use crate::kv::{Owner, Wanted};
use crate::runner::{RunError, Runner};
use crate::sampler::Parameters;

/// Tokens of each turn; the first is the prompt's.
pub const TOKENS: usize = 6;
const PROMPT: [u32; 5] = [3, 1, 4, 1, 5];
const OWNER: Owner = Owner(1);
const OTHER: Owner = Owner(2);

/// The recordings that exist when the fault is armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// None: executable graphs are made.
    Nothing,
    /// Those of an earlier turn: the prompt is replayed, and executable graphs are updated.
    Turn,
    /// Those of another conversation's turn: launches that name the other slot are set again.
    Other,
    /// Those after a failure: executable graphs are updated, including segments.
    Failure,
    /// A recording of this turn, which is replayed.
    Step,
}

const HELD: [Held; 5] = [
    Held::Nothing,
    Held::Turn,
    Held::Other,
    Held::Failure,
    Held::Step,
];

pub const HOW: [How; 3] = [How::Before, How::After, How::Synchronize];

/// Runs a turn from an empty slot, and calls `at` with the number of tokens so far. Steps are launched ahead where
/// possible, if `ahead`.
pub fn turn(
    runner: &mut Runner,
    ahead: bool,
    at: impl FnMut(&Runner, usize),
) -> Result<Vec<u32>, RunError> {
    turn_of(OWNER, runner, ahead, at)
}

fn turn_of(
    owner: Owner,
    runner: &mut Runner,
    ahead: bool,
    mut at: impl FnMut(&Runner, usize),
) -> Result<Vec<u32>, RunError> {
    let parameters = Parameters {
        temperature: 0.8,
        seed: 11,
        ..Parameters::default()
    };
    runner.rewind(owner, 0)?;
    // Each owner is its own user, so that no prefix is shared.
    runner.begin(Some(owner), u32::from(owner == OTHER), &PROMPT, parameters)?;
    at(runner, 0);
    runner.prefill_all(&PROMPT)?;
    let mut tokens = vec![runner.token()];
    while tokens.len() < TOKENS {
        at(runner, tokens.len());
        tokens.push(runner.step(ahead && tokens.len() + 1 < TOKENS)?);
    }
    Ok(tokens)
}

/// Refuses every call on every way to a step's token, one in each turn, and returns their number. The runner has two
/// slots and a mode that records, and its first step has run.
pub fn refuse_each_call(runner: &mut Runner) -> Result<usize, String> {
    refuse_calls(runner, |_| true)
}

/// Refuses those calls that `may` allows. It skips the later ones of the same kind after one that `may` refuses.
pub fn refuse_calls(
    runner: &mut Runner,
    mut may: impl FnMut(Fault) -> bool,
) -> Result<usize, String> {
    let mut strikes = 0;
    let text = turn(runner, true, |_, _| {}).map_err(|error| error.to_string())?;
    for held in HELD {
        for call in Call::ALL {
            for how in HOW {
                for skip in 0.. {
                    let fault = Fault { call, skip, how };
                    if !may(fault) {
                        break;
                    }
                    let struck = strike(runner, held, fault, &text);
                    if !struck.map_err(|error| format!("{held:?}, {fault:?}: {error}"))? {
                        break;
                    }
                    strikes += 1;
                }
            }
        }
    }
    Ok(strikes)
}

/// Refuses every launch of an eager step, which has no fallback: the step fails with those ahead of it, and the next
/// turn runs as if it had not existed. Returns the number of launches. Nothing is recorded.
pub fn refuse_each_launch(runner: &mut Runner) -> Result<usize, String> {
    let text = |runner: &mut Runner| turn(runner, true, |_, _| {}).map_err(|it| it.to_string());
    let (whole, mut launches) = (text(runner)?, 0);
    for how in HOW {
        for skip in 0.. {
            let fault = Fault {
                call: Call::Launch,
                skip,
                how,
            };
            let spoilt = turn(runner, true, |runner, tokens| {
                if tokens == 2 {
                    runner.executor().faults().arm(fault);
                }
            });
            let struck = !runner.executor().faults().disarm();
            let survives = how == How::Synchronize || !struck;
            match spoilt {
                Ok(tokens) if survives => same("the text", &tokens, &whole)?,
                Err(error) if !survives && !error.is_fatal() => {}
                other => return Err(format!("{fault:?}: {other:?}")),
            }
            // A finished step keeps no unowned pages.
            let positions = runner.context();
            let room = runner.has_room((0, Wanted::default()), positions, &[]);
            same(&format!("room after {fault:?}"), room, true)?;
            same(&format!("the text after {fault:?}"), &text(runner)?, &whole)?;
            if !struck {
                break;
            }
            launches += 1;
        }
    }
    Ok(launches)
}

/// Runs a turn with the fault, and one after it. Returns `false` if the turn made no such call.
fn strike(runner: &mut Runner, held: Held, fault: Fault, text: &[u32]) -> Result<bool, String> {
    let failed = |error: RunError| error.to_string();
    let mode = runner.graph().mode();
    match held {
        Held::Nothing => runner.reset_graph(),
        Held::Other => drop(turn_of(OTHER, runner, true, |_, _| {}).map_err(failed)?),
        Held::Turn | Held::Failure | Held::Step => {}
    }
    let was = runner.graph().counters();
    let tokens = spoilt(runner, held, fault).map_err(failed)?;
    same("the text", &tokens[..], text)?;
    let struck = !runner.executor().faults().disarm();
    let now = runner.graph().counters();
    let refused = now.failures - was.failures - u64::from(held == Held::Failure);
    match failures(fault, mode).map(|failures| if struck { failures } else { 0 }) {
        Some(failures) => same("failures", refused, failures)?,
        None => same("at most one failure", refused <= 1, true)?,
    }
    if struck && fault.call == Call::Update && fault.how != How::Synchronize {
        let anew = now.instantiations > was.instantiations;
        same("instantiated where an update was refused", anew, true)?;
    }
    same("tokens held", runner.len(), PROMPT.len() + TOKENS - 1)?;
    same("steps", steps(now) - steps(was), TOKENS as u64 - 1)?;

    let tokens = turn(runner, true, |_, _| {}).map_err(failed)?;
    same("the text of the next turn", &tokens[..], text)?;
    let after = runner.graph().counters();
    same(
        "steps replayed in the next turn",
        after.launches - now.launches,
        TOKENS as u64 - 1,
    )?;
    same("failures in all", after.failures, now.failures)?;
    same("state", runner.graph().state(), State::Valid)?;
    same("failures in a row", runner.graph().failures(), 0)?;
    runner.take_graph_events();
    Ok(struck)
}

/// A turn with an armed fault.
fn spoilt(runner: &mut Runner, held: Held, fault: Fault) -> Result<Vec<u32>, RunError> {
    let failure = Fault {
        call: Call::GraphLaunch,
        skip: 0,
        how: How::Before,
    };
    // An unrecorded prompt has no fallback.
    let first = usize::from(runner.graph().mode() != Mode::Full);
    turn(runner, true, |runner, tokens| {
        let faults = runner.executor().faults();
        match held {
            Held::Failure if tokens == 2 => faults.arm(failure),
            Held::Failure | Held::Step if tokens == 3 => faults.arm(fault),
            Held::Nothing | Held::Turn | Held::Other if tokens == first => faults.arm(fault),
            _ => {}
        }
    })
}

/// Returns the expected number of failures, or `None` if it depends on whether the launch is of a segment.
fn failures(fault: Fault, mode: Mode) -> Option<u64> {
    match (fault.how, fault.call) {
        (How::Synchronize, Call::Launch) => (mode != Mode::Piecewise).then_some(1),
        (How::Before | How::After, Call::SetKernel | Call::Update) => Some(0),
        (How::Before | How::After, _) | (How::Synchronize, Call::EndCapture) => Some(1),
        _ => Some(0),
    }
}

fn steps(counters: Counters) -> u64 {
    counters.launches + counters.eager_steps
}

/// Reports a wrong result.
#[allow(clippy::needless_pass_by_value)] // it reads like an assertion
pub fn same<T: PartialEq + Debug>(what: &str, is: T, to_be: T) -> Result<(), String> {
    if is == to_be {
        return Ok(());
    }
    Err(format!("{what}: {is:?}, and is to be {to_be:?}"))
}

//! Every call of a recording and a replay, refused once: before it is made, after it was made, and with the capture
//! lost. The text goes on, each step runs once, and the graph recovers.

use ganglion::engine::runner::Runner;
use ganglion::fault::{Call, Fault, How};
use ganglion::graph::{Counters, Mode, State};
use ganglion::kv::Owner;
use ganglion::sampler::Parameters;
use ganglion::tape::GraphOptions;

use super::{SIZES, TINY, prefill, runner};

const TOKENS: usize = 6;
const PROMPT: [u32; 5] = [3, 1, 4, 1, 5];
const OWNER: Owner = Owner(1);

/// What is recorded when the fault is armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// Nothing: executable graphs are made.
    Nothing,
    /// What an earlier turn has left: the prompt is replayed, and executable graphs are updated.
    Turn,
    /// What a failure has left: executable graphs are updated, of segments too.
    Failure,
    /// A recording of this turn: it is replayed.
    Step,
}

const HELD: [Held; 4] = [Held::Nothing, Held::Turn, Held::Failure, Held::Step];

fn options(mode: Mode) -> GraphOptions {
    GraphOptions {
        mode,
        capture_sizes: SIZES.to_vec(),
        verify_addresses: true,
        ..GraphOptions::default()
    }
}

/// A turn from an empty cache, in the course of which `at` is called with the number of tokens so far.
fn turn(runner: &mut Runner, mut at: impl FnMut(&Runner, usize)) -> Vec<u32> {
    let parameters = Parameters {
        temperature: 0.8,
        seed: 11,
        ..Parameters::default()
    };
    runner.rewind(OWNER, 0);
    let begun = runner.begin(Some(OWNER), &PROMPT, parameters);
    assert_eq!(begun.expect("a turn"), 0);
    at(runner, 0);
    prefill(runner, &PROMPT).expect("a prompt");
    let mut tokens = vec![runner.token()];
    while tokens.len() < TOKENS {
        at(runner, tokens.len());
        tokens.push(runner.step(true).expect("a step"));
    }
    tokens
}

/// A turn that the fault is armed in.
fn spoilt(runner: &mut Runner, held: Held, fault: Fault) -> Vec<u32> {
    let failure = Fault {
        call: Call::GraphLaunch,
        skip: 0,
        how: How::Before,
    };
    // Where prompts are not recorded, one that is refused has no other way to run.
    let first = usize::from(runner.graph().mode() != Mode::Full);
    turn(runner, |runner, tokens| {
        let faults = runner.executor().faults();
        match held {
            Held::Failure if tokens == 2 => faults.arm(failure),
            Held::Failure | Held::Step if tokens == 3 => faults.arm(fault),
            Held::Nothing | Held::Turn if tokens == first => faults.arm(fault),
            _ => {}
        }
    })
}

/// How many failures that is to be; `None` where it depends on whether the launch is of a segment.
fn failures(fault: Fault, mode: Mode) -> Option<u64> {
    match (fault.how, fault.call) {
        (How::Synchronize, Call::Launch) => (mode != Mode::Piecewise).then_some(1),
        (How::Before | How::After, Call::Update) => Some(0),
        (How::Before | How::After, _) | (How::Synchronize, Call::EndCapture) => Some(1),
        _ => Some(0),
    }
}

fn steps(counters: Counters) -> u64 {
    counters.launches + counters.eager_steps
}

/// Runs a turn with the fault and one after it. `false` if the turn made no such call.
fn strike(runner: &mut Runner, held: Held, fault: Fault, text: &[u32]) -> bool {
    let mode = runner.graph().mode();
    let context = format!("{} {held:?} {fault:?}", mode.name());
    if held == Held::Nothing {
        runner.reset_graph();
    }
    let was = runner.graph().counters();
    assert_eq!(spoilt(runner, held, fault), text, "{context}");
    let struck = !runner.executor().faults().disarm();
    let now = runner.graph().counters();
    let refused = now.failures - was.failures - u64::from(held == Held::Failure);
    match failures(fault, mode) {
        Some(failures) => assert_eq!(refused, if struck { failures } else { 0 }, "{context}"),
        None => assert!(refused <= 1, "{context}"),
    }
    if struck && fault.call == Call::Update && fault.how != How::Synchronize {
        assert!(now.instantiations > was.instantiations, "{context}");
    }
    assert_eq!(runner.len(), PROMPT.len() + TOKENS - 1, "{context}");
    assert_eq!(steps(now) - steps(was), TOKENS as u64 - 1, "{context}");

    assert_eq!(turn(runner, |_, _| {}), text, "{context}: the turn after");
    let after = runner.graph().counters();
    let replayed = after.launches - now.launches;
    assert_eq!(replayed, TOKENS as u64 - 1, "{context}: the turn after");
    assert_eq!(after.failures, now.failures, "{context}: the turn after");
    assert_eq!(runner.graph().state(), State::Valid, "{context}");
    assert_eq!(runner.graph().failures(), 0, "{context}");
    struck
}

#[test]
fn whatever_call_is_refused_the_text_goes_on_and_the_graph_recovers() {
    let mut strikes = 0;
    for (mode, name) in [
        (Mode::FullDecodeOnly, TINY[2]),
        (Mode::Piecewise, TINY[0]),
        (Mode::Full, TINY[3]),
    ] {
        let text = turn(&mut runner(name, 1, options(Mode::None)), |_, _| {});
        let mut runner = runner(name, 1, options(mode));
        // The first step of a process runs eagerly.
        assert_eq!(turn(&mut runner, |_, _| {}), text);
        for held in HELD {
            for call in Call::ALL {
                for how in [How::Before, How::After, How::Synchronize] {
                    let mut skip = 0;
                    while strike(&mut runner, held, Fault { call, skip, how }, &text) {
                        skip += 1;
                    }
                    strikes += skip;
                }
            }
        }
    }
    println!("{strikes} calls refused");
    assert!(strikes > 500, "only {strikes} calls were refused");
}

#[test]
fn three_refusals_in_a_row_disable_it_and_a_reset_or_a_mode_begins_anew() {
    let mut runner = runner(TINY[2], 1, options(Mode::FullDecodeOnly));
    let text = turn(&mut runner, |_, _| {});
    let refuse = |runner: &Runner, _| {
        runner.executor().faults().arm(Fault {
            call: Call::GraphLaunch,
            skip: 0,
            how: How::Before,
        });
    };
    let again: [fn(&mut Runner); 2] = [
        |runner| runner.reset_graph(),
        |runner| runner.set_graph_mode(Mode::Piecewise),
    ];
    for begin_anew in again {
        assert_eq!(turn(&mut runner, refuse), text);
        runner.executor().faults().disarm();
        assert_eq!(runner.graph().state(), State::Disabled);
        assert_eq!(runner.graph().failures(), 3);
        let was = runner.graph().counters();
        assert_eq!(turn(&mut runner, |_, _| {}), text);
        let eager = runner.graph().counters().eager_steps - was.eager_steps;
        assert_eq!(eager, TOKENS as u64 - 1, "disabled, it runs eagerly");
        begin_anew(&mut runner);
        assert_eq!(turn(&mut runner, |_, _| {}), text);
        assert_eq!(runner.graph().state(), State::Valid);
        assert_eq!(runner.graph().failures(), 0);
    }
}

/// Memory that moves makes every recording useless, and with `verify_addresses` or without, what moved has a name.
#[test]
fn memory_that_moves_invalidates_and_is_named() {
    let mut moved = 0;
    for mode in [Mode::FullDecodeOnly, Mode::Piecewise, Mode::Full] {
        for verify_addresses in [false, true] {
            let options = GraphOptions {
                verify_addresses,
                ..options(mode)
            };
            let mut runner = runner(TINY[0], 1, options);
            let text = turn(&mut runner, |_, _| {});
            for rows in [2, 4, 8, 16] {
                assert_eq!(turn(&mut runner, |_, _| {}), text);
                let recordings = runner.graph().counters().recordings;
                // Within the turn nothing changes but that there is room for more rows of logits, there or elsewhere.
                runner.logits(&vec![1; rows], |_| {}).expect("logits");
                runner.step(false).expect("a step");
                if runner.graph().counters().recordings > recordings {
                    moved += 1;
                    let reason = runner.graph().reason().to_string();
                    assert!(reason.starts_with("moved: logits moved from"), "{reason}");
                }
            }
            assert_eq!(turn(&mut runner, |_, _| {}), text);
        }
    }
    assert!(moved > 0, "the memory never moved");
}

//! Refused calls and moved memory: the cases of the life cycle that random runs may miss.

use ganglion::fault::{Call, Fault, How};
use ganglion::graph::GraphOptions;
use ganglion::graph::{Mode, State};
use ganglion::runner::Runner;
use ganglion::trial::refusals::{TOKENS, refuse_each_call, refuse_each_launch, turn};

use super::{SIZES, TINY, runner, runner_with};

const RECORDING: [Mode; 3] = [Mode::FullDecodeOnly, Mode::Piecewise, Mode::Full];

fn options(mode: Mode) -> GraphOptions {
    GraphOptions {
        mode,
        capture_sizes: SIZES.to_vec(),
        verify_addresses: true,
        ..GraphOptions::default()
    }
}

fn text(runner: &mut Runner) -> Vec<u32> {
    turn(runner, true, |_, _| {}).expect("nothing fails here")
}

#[test]
fn after_any_refused_call_the_text_continues_and_the_graph_recovers() {
    let mut strikes = 0;
    let ways = [false, true].into_iter().flat_map(|ahead| {
        let modes = RECORDING.into_iter().zip(TINY);
        modes.map(move |(mode, name)| (mode, name, ahead))
    });
    for (mode, name, ahead) in ways {
        let eager = text(&mut runner(name, 1, options(Mode::None)));
        let mut runner = runner_with(name, 2, options(mode), ahead);
        assert_eq!(text(&mut runner), eager);
        match refuse_each_call(&mut runner) {
            Ok(calls) => strikes += calls,
            Err(error) => panic!("{name} {}, ahead: {ahead}: {error}", mode.name()),
        }
        assert_eq!(text(&mut runner), eager);
    }
    println!("{strikes} calls refused");
    assert!(strikes > 500, "only {strikes} calls were refused");
}

#[test]
fn a_refused_step_with_one_ahead_frees_all_pages() {
    let mut runner = runner_with(TINY[0], 2, options(Mode::None), true);
    match refuse_each_launch(&mut runner) {
        Ok(launches) => assert!(launches > 50, "only {launches} launches were refused"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn three_refusals_disable_the_graph_and_a_reset_or_a_mode_enables_it() {
    let mut runner = runner(TINY[2], 1, options(Mode::FullDecodeOnly));
    let eager = text(&mut runner);
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
        assert_eq!(turn(&mut runner, false, refuse).expect("a turn"), eager);
        runner.executor().faults().disarm();
        assert_eq!(runner.graph().state(), State::Disabled);
        assert_eq!(runner.graph().failures(), 3);
        let was = runner.graph().counters();
        assert_eq!(text(&mut runner), eager);
        let steps = runner.graph().counters().eager_steps - was.eager_steps;
        assert_eq!(steps, TOKENS as u64 - 1, "disabled, it runs eagerly");
        begin_anew(&mut runner);
        assert_eq!(text(&mut runner), eager);
        assert_eq!(runner.graph().state(), State::Valid);
        assert_eq!(runner.graph().failures(), 0);
    }
}

/// Moved memory makes every recording invalid. The moved buffer is named with and without `verify_addresses`.
#[test]
fn moved_memory_invalidates_the_graph_and_is_named() {
    let mut moved = 0;
    for mode in RECORDING {
        for verify_addresses in [false, true] {
            let options = GraphOptions {
                verify_addresses,
                ..options(mode)
            };
            let mut runner = runner(TINY[0], 1, options);
            let eager = text(&mut runner);
            for rows in [2, 4, 8, 16] {
                assert_eq!(text(&mut runner), eager);
                let recordings = runner.graph().counters().recordings;
                // Within the turn only the room for rows of logits changes.
                runner.logits(&vec![1; rows], |_| {}).expect("logits");
                runner.step(false).expect("a step");
                if runner.graph().counters().recordings > recordings {
                    moved += 1;
                    let reason = runner.graph().reason().to_string();
                    assert!(reason.starts_with("moved: logits moved from"), "{reason}");
                }
            }
            assert_eq!(text(&mut runner), eager);
        }
    }
    assert!(moved > 0, "the memory never moved");
}

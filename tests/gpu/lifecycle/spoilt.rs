//! Refused driver calls: the text stays the same, and the stream usable.

use ganglion::fault::{Call, Fault, How};
use ganglion::graph::{Mode, State};
use ganglion::runner::{RunError, Runner};
use ganglion::trial::refusals::{TOKENS, refuse_each_call, refuse_each_launch, same, turn};

use super::{Outcome, RECORDING};

/// Refuses every call of every mode. The driver itself refuses to synchronize a stream during a capture.
pub(super) fn each_call(runner: &mut Runner) -> Outcome {
    let eager = eager(runner)?;
    let mut said = Vec::new();
    for mode in RECORDING {
        runner.set_graph_mode(mode);
        let refused = refuse_each_call(runner);
        let calls = refused.map_err(|error| format!("{}: {error}", mode.name()))?;
        same("the text", text(runner)?, eager.clone())?;
        said.push(format!("{} {calls}", mode.name()));
    }
    Ok(said.join(", "))
}

/// An eager step has no fallback: it fails, and the next turn runs as if the step had not existed.
pub(super) fn eagerly(runner: &mut Runner) -> Outcome {
    runner.set_graph_mode(Mode::None);
    Ok(format!("{} launches", refuse_each_launch(runner)?))
}

/// The third refusal disables the graph; a reset or another mode enables it again.
pub(super) fn in_a_row(runner: &mut Runner) -> Outcome {
    let eager = eager(runner)?;
    let again: [fn(&mut Runner); 2] = [Runner::reset_graph, |runner| {
        runner.set_graph_mode(Mode::Piecewise);
    }];
    runner.set_graph_mode(Mode::FullDecodeOnly);
    for begin_anew in again {
        // Not ahead, because one fault is armed for each step.
        let refused = turn(runner, false, |runner, _| {
            runner.executor().faults().arm(Fault {
                call: Call::GraphLaunch,
                skip: 0,
                how: How::Before,
            });
        });
        runner.executor().faults().disarm();
        same("the refused text", refused.map_err(failed)?, eager.clone())?;
        same("state", runner.graph().state(), State::Disabled)?;
        let was = runner.graph().counters().eager_steps;
        same("the disabled text", text(runner)?, eager.clone())?;
        let steps = runner.graph().counters().eager_steps - was;
        same("eager steps", steps, TOKENS as u64 - 1)?;
        begin_anew(runner);
        same("the text begun anew", text(runner)?, eager.clone())?;
        same("state", runner.graph().state(), State::Valid)?;
    }
    Ok("disabled, and begun anew by a reset and by a mode".into())
}

/// Returns the text of eager execution; the mode is `none` afterwards.
pub(super) fn eager(runner: &mut Runner) -> Result<Vec<u32>, String> {
    runner.set_graph_mode(Mode::None);
    text(runner)
}

pub(super) fn text(runner: &mut Runner) -> Result<Vec<u32>, String> {
    turn(runner, true, |_, _| {}).map_err(failed)
}

#[allow(clippy::needless_pass_by_value)] // `map_err` passes it by value
pub(super) fn failed(error: RunError) -> String {
    error.to_string()
}

//! Refuses driver calls around a decode graph: the text stays the same, and the graph recovers.

use std::time::{Duration, Instant};

use super::error::TrialError;
use super::refusals::{refuse_calls, turn};
use crate::graph::{Mode, State};
use crate::runner::Runner;

const RECORDING: [Mode; 3] = [Mode::FullDecodeOnly, Mode::Piecewise, Mode::Full];

/// Refuses the first call of each kind on each way to a token, in each mode that records, for at most about `limit`.
/// Returns the number of refused calls in each mode. The runner has two slots.
///
/// # Errors
/// If a text differs, a step runs twice, or the graph does not recover.
pub fn refuse_first_calls(
    runner: &mut Runner,
    limit: Duration,
) -> Result<Vec<(Mode, usize)>, TrialError> {
    runner.set_graph_mode(Mode::None);
    let eager = turn(runner, true, |_, _| {})?;
    let mut refused = Vec::new();
    for (left, mode) in (1..=3).rev().zip(RECORDING) {
        let start = Instant::now();
        let spent: Duration = refused.iter().map(|(_, _, spent)| *spent).sum();
        let share = limit.saturating_sub(spent) / left;
        runner.set_graph_mode(mode);
        let calls = refuse_calls(runner, |fault| fault.skip == 0 && start.elapsed() < share);
        let calls = calls.map_err(|what| TrialError::Wrong(format!("{}: {what}", mode.name())))?;
        let text = turn(runner, true, |_, _| {})?;
        let state = runner.graph().state();
        if text != eager || state != State::Valid {
            let what = format!(
                "{}: the text is {text:?}, not {eager:?}, and the graph is {state:?}",
                mode.name()
            );
            return Err(TrialError::Wrong(what));
        }
        runner.take_graph_events();
        refused.push((mode, calls, start.elapsed()));
    }
    Ok(refused
        .into_iter()
        .map(|(mode, calls, _)| (mode, calls))
        .collect())
}

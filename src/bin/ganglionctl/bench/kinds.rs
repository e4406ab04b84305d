//! Where the time of a step goes: each kind of operation, beside the least that its bytes would take.
//!
//! A note takes time of its own after each operation, so these are the times of operations alone, not of what lies
//! between them.

use std::fmt::{self, Write as _};

use ganglion::engine::runner::{OpCost, RunError, Runner};
use ganglion::tape::Noted;
use serde::Serialize;

use super::statistics::median;
use super::together;

/// Steps that are looked at, at most.
const MEASURED: usize = 50;

/// All operations of a kind in one step. The keys are stable: scripts read them.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Kind {
    pub(super) name: String,
    /// How many there are.
    count: usize,
    /// The median of the steps.
    pub(super) microseconds: f64,
    /// Of the time that all operations take.
    percent: f64,
    bytes: u64,
    /// What the bytes would take at the speed that this machine's memory was measured at.
    pub(super) floor_microseconds: Option<f64>,
}

/// Runs steps of so many conversations one at a time, each after a prompt.
///
/// # Errors
/// As `Runner::step_rows`.
pub(super) fn measure(
    runner: &mut Runner,
    rows: usize,
    prompt: &[u32],
    generate: usize,
) -> Result<Vec<Kind>, RunError> {
    runner.measure(Noted::Operations)?;
    let regions = together::begin(runner, rows, prompt)?;
    runner.take_spans()?;
    let costs = runner.step_costs(rows);
    let mut steps: Vec<Vec<f64>> = Vec::new();
    for _ in 0..generate.min(MEASURED) {
        runner.step_rows(&regions, false)?;
        let spans = runner.take_spans()?;
        let time = |span: &Option<(u64, u64)>| {
            #[allow(clippy::cast_precision_loss)] // differences of less than a minute
            span.map_or(0.0, |(begin, end)| (end - begin) as f64 / 1e3)
        };
        steps.push(spans.iter().map(time).collect());
    }
    // The first one records.
    if steps.len() > 1 {
        steps.remove(0);
    }
    Ok(kinds(&costs, &steps))
}

fn kinds(costs: &[OpCost], steps: &[Vec<f64>]) -> Vec<Kind> {
    let times = |name: &str| -> f64 {
        let of_step = |step: &Vec<f64>| {
            let named = costs.iter().zip(step).filter(|(cost, _)| cost.kind == name);
            named.map(|(_, time)| time).sum()
        };
        median(steps.iter().map(of_step))
    };
    let mut kinds: Vec<Kind> = Vec::new();
    for cost in costs {
        match kinds.iter_mut().find(|kind| kind.name == cost.kind) {
            Some(kind) => {
                kind.count += 1;
                kind.bytes += cost.bytes;
            }
            None => kinds.push(Kind {
                name: cost.kind.clone(),
                count: 1,
                microseconds: times(&cost.kind),
                percent: 0.0,
                bytes: cost.bytes,
                floor_microseconds: None,
            }),
        }
    }
    let all: f64 = kinds.iter().map(|kind| kind.microseconds).sum();
    for kind in &mut kinds {
        kind.percent = 100.0 * kind.microseconds / all;
    }
    if all > 0.0 { kinds } else { Vec::new() }
}

/// Adds what memory of so many bytes per second would allow.
pub(super) fn hold_against(kinds: &mut [Kind], bytes_per_second: f64) {
    for kind in kinds {
        #[allow(clippy::cast_precision_loss)] // bytes of a step
        let floor = kind.bytes as f64 / bytes_per_second * 1e6;
        kind.floor_microseconds = Some(floor);
    }
}

/// A row for each kind, of a step of so many conversations.
pub(super) fn table(kinds: &[Kind], rows: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if kinds.is_empty() {
        return Ok(());
    }
    if rows > 1 {
        writeln!(f, "a step of {rows} rows:")?;
    }
    writeln!(
        f,
        "{:<20}{:>7}{:>10}{:>8}{:>11}{:>9}",
        "operation", "count", "us a step", "share", "us at best", "times it"
    )?;
    for kind in kinds {
        let mut line = format!(
            "{:<20}{:>7}{:>10.1}{:>7.1}%",
            kind.name, kind.count, kind.microseconds, kind.percent
        );
        if let Some(floor) = kind.floor_microseconds {
            write!(line, "{floor:>11.1}{:>9.1}", kind.microseconds / floor)?;
        }
        writeln!(f, "{line}")?;
    }
    writeln!(f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_a_kind_are_added_up_and_held_against_their_bytes() {
        let cost = |kind: &str, bytes| OpCost {
            kind: kind.into(),
            bytes,
        };
        let costs = [cost("qkv", 1000), cost("attend", 500), cost("qkv", 1000)];
        let steps = [
            vec![2.0, 5.0, 1.0],
            vec![2.0, 4.0, 2.0],
            vec![3.0, 3.0, 3.0],
        ];
        let mut kinds = kinds(&costs, &steps);
        hold_against(&mut kinds, 1e9);
        let [qkv, attend] = &kinds[..] else {
            panic!("two kinds, not {kinds:?}")
        };
        assert_eq!((qkv.count, qkv.bytes, attend.count), (2, 2000, 1));
        let times = [qkv.microseconds, attend.microseconds, qkv.percent];
        let to_be = [4.0_f64, 4.0, 50.0];
        assert_eq!(times.map(f64::to_bits), to_be.map(f64::to_bits));
        assert_eq!(
            qkv.floor_microseconds.map(f64::to_bits),
            Some(2.0_f64.to_bits())
        );
    }
}

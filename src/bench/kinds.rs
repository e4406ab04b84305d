//! The time of each kind of operation in a step, and the least time that moving its bytes would take.
//!
//! A timestamp takes time of its own, so these are the times of operations alone, without the gaps between them.

use serde::Serialize;

use super::steps::{Spans, Workload, median, timed_steps};
use crate::executor::Timed;
use crate::runner::{KindTime, OpCost, RunError, Runner};

/// All operations of a kind in one step. The keys are stable: scripts read them.
#[derive(Clone, Debug, Serialize)]
pub struct StepKind {
    pub name: String,
    /// The number of these operations in a step.
    count: usize,
    /// Their total time; the median of the steps.
    pub microseconds: f64,
    /// Their share of the time of all operations.
    percent: f64,
    bytes: u64,
    /// The time to move their bytes at the measured memory bandwidth.
    pub floor_microseconds: Option<f64>,
}

/// Runs steps of `rows` conversations one at a time, each after a prompt.
pub(super) fn measure(
    runner: &mut Runner,
    rows: usize,
    work: Workload<'_>,
) -> Result<Vec<StepKind>, RunError> {
    let steps = timed_steps(runner, Timed::Operations, rows, work)?;
    Ok(kinds(&runner.step_costs(rows), &steps))
}

fn kinds(costs: &[OpCost], steps: &[Spans]) -> Vec<StepKind> {
    let sums = steps.iter().map(|step| KindTime::sums(costs, step));
    let steps: Vec<Vec<KindTime>> = sums.collect();
    let sums = steps.first().into_iter().flatten().enumerate();
    let kind = |(at, sum): (usize, &KindTime)| StepKind {
        name: sum.name.clone(),
        count: sum.count,
        #[allow(clippy::cast_precision_loss)] // less than a minute
        microseconds: median(steps.iter().map(|step| step[at].time.as_nanos() as f64 / 1e3)),
        percent: 0.0,
        bytes: sum.bytes,
        floor_microseconds: None,
    };
    let mut kinds: Vec<StepKind> = sums.map(kind).collect();
    let all: f64 = kinds.iter().map(|kind| kind.microseconds).sum();
    for kind in &mut kinds {
        kind.percent = 100.0 * kind.microseconds / all;
    }
    kinds.retain(|_| all > 0.0);
    kinds
}

impl StepKind {
    /// Adds the least time at this memory bandwidth.
    #[allow(clippy::cast_precision_loss)] // bytes of a step
    pub(super) fn compare_with_memory(&mut self, bytes_per_second: f64) {
        self.floor_microseconds = Some(self.bytes as f64 / bytes_per_second * 1e6);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_a_kind_are_summed_next_to_their_least_time() {
        let cost = |kind: &str, bytes| OpCost {
            kind: kind.into(),
            bytes,
        };
        let costs = [cost("qkv", 1000), cost("attend", 500), cost("qkv", 1000)];
        let steps = [[2, 5, 1], [2, 4, 2], [3, 3, 3]]
            .map(|step| step.map(|time| Some((0, 1000 * time))).to_vec());
        let mut kinds = kinds(&costs, &steps);
        kinds
            .iter_mut()
            .for_each(|kind| kind.compare_with_memory(1e9));
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

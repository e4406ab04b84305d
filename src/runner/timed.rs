//! Steps whose operations are timed one by one.

use std::time::Duration;

use super::error::RunError;
use super::rows::OpCost;
use super::{Runner, logits_observer};
use crate::executor::{Span, Timed};

/// The operations of one kind in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindTime {
    pub name: String,
    /// The number of operations.
    pub count: usize,
    /// The bytes that they read and write.
    pub bytes: u64,
    pub time: Duration,
}

impl KindTime {
    /// Returns the operations of a step by kind, in the order in which the kinds first run.
    #[must_use]
    pub(crate) fn sums(costs: &[OpCost], spans: &[Option<Span>]) -> Vec<Self> {
        let mut kinds: Vec<Self> = Vec::new();
        for (cost, span) in costs.iter().zip(spans) {
            let time = span.map_or(0, |(begin, end)| end.saturating_sub(begin));
            let time = Duration::from_nanos(time);
            match kinds.iter_mut().find(|kind| kind.name == cost.kind) {
                Some(kind) => {
                    kind.count += 1;
                    kind.bytes += cost.bytes;
                    kind.time += time;
                }
                None => kinds.push(Self {
                    name: cost.kind.clone(),
                    count: 1,
                    bytes: cost.bytes,
                    time,
                }),
            }
        }
        kinds
    }
}

impl Runner {
    /// Makes the operations of later steps take timestamps.
    pub(crate) fn measure(&mut self, timed: Timed) -> Result<(), RunError> {
        Ok(self.executor.measure(&self.step, timed)?)
    }

    /// Returns when each operation of the last step began and ended, in nanoseconds: `None` for an operation that is fused with
    /// another, and nothing if the step was not measured. Only for steps that are not launched ahead.
    pub(crate) fn take_spans(&mut self) -> Result<Vec<Option<Span>>, RunError> {
        Ok(self.executor.take_spans()?)
    }

    /// Runs a step operation by operation, without the recorded graph. Returns its token, and the time of each kind of operation
    /// in the order in which they first run; `None` if the step had been launched ahead, and was not timed.
    pub fn time_step(&mut self) -> Result<(u32, Option<Vec<KindTime>>), RunError> {
        let token = self.executor.state().token;
        self.seat(&[self.kv.active()])?;
        let costs = self.step_costs(1);
        let spans = self.executor.time_step(&self.step);
        let spans = self.checked(spans)?;
        self.kv.push(token);
        let observer = self.observer.as_ref();
        logits_observer::show(observer, &mut *self.executor, &self.step, [0])?;
        self.stepped(&[self.kv.active()]);
        let kinds = spans.map(|spans| KindTime::sums(&costs, &spans));
        Ok((self.executor.state().token, kinds))
    }
}

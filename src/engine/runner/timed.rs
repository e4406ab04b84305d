//! Steps whose operations are timed one by one, and the sums of each kind of operation.

use std::time::Duration;

use super::{OpCost, RunError, Runner};
use crate::engine::witness;
use crate::executor::{Span, Timed};

/// All operations of a kind in one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindTime {
    pub name: String,
    /// How many there are.
    pub count: usize,
    /// What they must read and write once.
    pub bytes: u64,
    pub time: Duration,
}

impl KindTime {
    /// The operations of a step by kind, in the order in which the kinds first run.
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
    /// From now on operations of a step take timestamps.
    pub(crate) fn measure(&mut self, timed: Timed) -> Result<(), RunError> {
        Ok(self.executor.measure(&self.step, timed)?)
    }

    /// When each operation of the last step began and ended, in nanoseconds, `None` for one that another did on the way;
    /// empty where nothing was measured. Meant for steps that are run one at a time, not ahead.
    pub(crate) fn take_spans(&mut self) -> Result<Vec<Option<Span>>, RunError> {
        Ok(self.executor.take_spans()?)
    }

    /// As `step` without `more`, operation by operation, whatever is recorded: that stays as it is. Returns the kinds too, in
    /// the order in which they first run; `None` if the step had been launched ahead, for then it was not timed.
    pub fn time_step(&mut self) -> Result<(u32, Option<Vec<KindTime>>), RunError> {
        let token = self.executor.state().token;
        self.seated(&[self.kv.active()])?;
        let costs = self.step_costs(1);
        let spans = self.executor.time_step(&self.step);
        let spans = self.tried(spans)?;
        self.kv.push(token);
        let witness = self.settings.witness.as_ref();
        witness::show(witness, &mut *self.executor, &self.step, [0])?;
        self.stepped(&[self.kv.active()]);
        let kinds = spans.map(|spans| KindTime::sums(&costs, &spans));
        Ok((self.executor.state().token, kinds))
    }
}

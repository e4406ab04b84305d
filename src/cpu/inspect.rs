//! Logits, times and launches of the CPU executor.

use std::time::Instant;

use super::Cpu;
use super::timestamps::Timestamps;
use crate::executor::{ExecuteError, Inspect, Span, Steps as _, Timed};
use crate::tape::Tape;

impl Inspect for Cpu {
    fn activation_bytes(&self) -> u64 {
        self.core.activation_bytes() as u64
    }

    fn logits(&self, tape: &Tape, row: usize) -> &[f32] {
        self.core.logits(tape, row)
    }

    fn all_logits(&mut self, tape: &Tape) -> Result<Vec<f32>, ExecuteError> {
        if let Some(logits) = &self.previous_logits {
            return Ok(logits.clone());
        }
        let rows = (0..tape.scored_rows()).flat_map(|row| self.core.logits(tape, row));
        Ok(rows.copied().collect())
    }

    fn keeps_logits(&self) -> bool {
        true
    }

    fn time_step(&mut self, tape: &Tape) -> Result<Option<Vec<Option<Span>>>, ExecuteError> {
        if self.is_ahead() {
            return self.step(tape, false).map(|()| None);
        }
        self.fits(self.core.slot, 1, tape.rows)?;
        self.core.rows.clear();
        self.core.rows.push(self.core.slot);
        let before = self
            .core
            .timestamps
            .replace(Timestamps::new(tape.ops.len()));
        let begun = Instant::now();
        let (mut step, graph, _) = self.split(tape);
        let ran = graph.step_eagerly(&mut step);
        let spans = self.take_spans();
        self.core.timestamps = before;
        self.base.times.waited = begun.elapsed();
        ran.and(spans).map(Some)
    }

    fn measure(&mut self, step: &Tape, _: Timed) -> Result<(), ExecuteError> {
        self.core.timestamps = Some(Timestamps::new(step.ops.len()));
        Ok(())
    }

    fn take_spans(&mut self) -> Result<Vec<Option<Span>>, ExecuteError> {
        let timestamps = self.core.timestamps.as_mut();
        Ok(timestamps.map(Timestamps::take).unwrap_or_default())
    }

    fn launches(&mut self, tape: &Tape) -> Vec<(&'static str, String)> {
        let ops = tape.ops.iter();
        ops.map(|op| (op.name(), op.name().into())).collect()
    }

    fn graph_dot(&self) -> Result<String, ExecuteError> {
        let recorded = self.base.graph.execs().enumerate();
        Ok(recorded.map(|(index, living)| living.dot(index)).collect())
    }
}

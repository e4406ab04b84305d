//! Logits, times and launches of the CUDA executor.

use std::time::Duration;

use super::queue::LaunchQueue;
use super::timestamps::Timestamps;
use super::{Cuda, Launched};
use crate::executor::{ExecuteError, Inspect, Span, Steps as _, Timed};
use crate::graph::Graph;
use crate::tape::Tape;

impl Inspect for Cuda {
    fn multiprocessors(&self) -> Option<(u32, u32)> {
        let properties = self.context.properties();
        Some((properties.multiprocessors, properties.all_multiprocessors))
    }

    fn activation_bytes(&self) -> u64 {
        self.buffers.bytes() + self.scratch.arena.bytes()
    }

    fn logits(&self, _: &Tape, row: usize) -> &[f32] {
        self.logits
            .get(row * self.vocabulary..)
            .and_then(|rest| rest.get(..self.vocabulary))
            .unwrap_or(&[])
    }

    fn all_logits(&mut self, tape: &Tape) -> Result<Vec<f32>, ExecuteError> {
        let mut logits = vec![0.0; tape.scored_rows() * self.vocabulary];
        self.buffers
            .read_logits(tape, &mut logits, &mut self.stream)?;
        Ok(logits)
    }

    fn time_step(&mut self, tape: &Tape) -> Result<Option<Vec<Option<Span>>>, ExecuteError> {
        if self.is_ahead() {
            self.step(tape, false)?;
            return Ok(None);
        }
        let slot = self.slot;
        self.fits(slot, 1)?;
        self.started = None;
        let timestamps = self.single_step_addresses(tape)?;
        let idle = self.idle_since.take();
        self.base.times.idle = idle.map_or(Duration::ZERO, |since| since.elapsed());
        self.command(tape, &[slot], &[]);
        let (mut step, graph, _) = self.split(tape);
        step.timestamps = Some(timestamps);
        let ran = graph.step_eagerly(&mut step);
        let ran = ran.inspect_err(|_| self.lose(&[slot]))?;
        self.mark(0).inspect_err(|_| self.lose(&[slot]))?;
        self.pending.push_back(Launched::new(ran, &[slot]));
        self.take_tokens(1, &[], &[slot])?;
        let Some(timestamps) = &mut self.single_step_timestamps else {
            return Ok(None);
        };
        let spans = timestamps.read(&mut self.stream)?;
        timestamps.clear(&mut self.stream)?;
        Ok(Some(spans))
    }

    fn measure(&mut self, step: &Tape, timed: Timed) -> Result<(), ExecuteError> {
        self.drain()?;
        let mut timestamps = Timestamps::new(&self.context, step.ops.len(), timed)?;
        timestamps.clear(&mut self.stream)?;
        self.timestamps = Some(timestamps);
        // Recordings made so far lack the addresses of the timestamps.
        self.base.moves += 1;
        Ok(())
    }

    fn take_spans(&mut self) -> Result<Vec<Option<Span>>, ExecuteError> {
        self.drain()?;
        let Some(timestamps) = &mut self.timestamps else {
            return Ok(Vec::new());
        };
        let spans = timestamps.read(&mut self.stream)?;
        timestamps.clear(&mut self.stream)?;
        Ok(spans)
    }

    fn launches(&mut self, tape: &Tape) -> Vec<(&'static str, String)> {
        let mut names = Vec::new();
        let step = self.split(tape).0;
        // Naming launches nothing, so it cannot be refused.
        let _ = step.work.run(
            tape,
            0..tape.ops.len(),
            &mut LaunchQueue::naming(&mut names),
        );
        names
    }

    fn graph_dot(&self) -> Result<String, ExecuteError> {
        let segments: Result<String, _> = self.base.graph.execs().map(Graph::dot).collect();
        Ok(segments?)
    }
}

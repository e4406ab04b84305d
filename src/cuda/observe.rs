//! What is told of a running executor, and what is asked of its graphs from outside.

use super::queue::Queue;
use super::{Cuda, Error, Pace};
use crate::fault::Faults;
use crate::graph::{Counts, Graph, LifeCycle, Mode};
use crate::tape::Tape;

impl Cuda {
    /// The row of logits that a tape of `Ending::Logits` left.
    #[must_use]
    pub fn logits(&self, row: usize) -> &[f32] {
        self.logits
            .get(row * self.vocabulary..)
            .and_then(|rest| rest.get(..self.vocabulary))
            .unwrap_or(&[])
    }

    /// The rows of logits that the last step left, once it has ended.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn step_logits(&mut self, step: &Tape) -> Result<Vec<f32>, Error> {
        let mut logits = vec![0.0; step.rows * self.vocabulary];
        self.slots
            .read_logits(step, &mut logits, &mut self.stream)?;
        Ok(logits)
    }

    #[must_use]
    pub fn pace(&self) -> Pace {
        self.pace
    }

    #[must_use]
    pub fn graph(&self) -> &LifeCycle {
        self.graph.life()
    }

    pub fn graph_mut(&mut self) -> &mut LifeCycle {
        self.graph.life_mut()
    }

    #[must_use]
    pub fn prompt_graphs(&self) -> Counts {
        self.prompts.counts()
    }

    /// Goes on with what was counted of another executor's prompts.
    pub fn succeed_prompts(&mut self, before: Counts) {
        self.prompts.succeed(before);
    }

    /// Records a prepared tape of a prompt for a region of the cache, without running it.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn record(&mut self, tape: &Tape, region: usize) -> Result<(), Error> {
        self.drain()?;
        self.give_weights()?;
        self.region = region;
        let key = self.key(tape);
        let (mut prompt, graph, prompts) = self.split(tape);
        prompts.record(key, &mut prompt, graph.life_mut())
    }

    /// Drops all that was recorded.
    pub fn reset_graph(&mut self) {
        self.prompts.clear();
        self.graph.reset();
    }

    pub fn set_graph_mode(&mut self, mode: Mode) {
        self.prompts.clear();
        self.graph.set_mode(mode);
    }

    /// The kernels that a run of a tape launches, each with the operation that it belongs to.
    #[must_use]
    pub fn launches(&mut self, tape: &Tape) -> Vec<(&'static str, String)> {
        let mut names = Vec::new();
        let step = self.split(tape).0;
        // It launches nothing, so nothing can be refused.
        let _ = step
            .work
            .run(tape, 0..tape.ops.len(), &mut Queue::naming(&mut names));
        names
    }

    /// What is recorded, in DOT.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn graph_dot(&self) -> Result<String, Error> {
        self.graph.execs().map(Graph::dot).collect()
    }

    /// What tests let fail.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        self.context.faults()
    }
}

//! The recordings of steps and prompts, and the kernels that they consist of.

use super::Runner;
use super::error::RunError;
use crate::graph::{Counts, Event, LifeCycle, Mode};
use crate::tape::{Ending, Input};

impl Runner {
    /// Returns the life cycle of the decode graph.
    #[must_use]
    pub fn graph(&self) -> &LifeCycle {
        self.executor.graphs().life()
    }

    /// Returns counts of recorded prompts.
    #[must_use]
    pub fn prompt_graphs(&self) -> Counts {
        self.executor.graphs().prompt_counts()
    }

    /// Returns the events of the decode graph since the last call.
    pub fn take_graph_events(&mut self) -> Vec<Event> {
        self.executor.graphs_mut().life_mut().take_events()
    }

    /// Drops all recordings. Recording that failures had disabled is tried again.
    pub fn reset_graph(&mut self) {
        self.executor.graphs_mut().reset();
    }

    /// Changes how steps are recorded.
    pub fn set_graph_mode(&mut self, mode: Mode) {
        self.executor.graphs_mut().set_mode(mode);
    }

    /// Returns the number of kernels of a step, or of operations on the CPU.
    #[must_use]
    pub(crate) fn step_launches(&mut self) -> usize {
        self.executor.launches(&self.step).len()
    }

    /// Returns the kernels of a step or a prompt with `rows` rows, by operation. It must have run before.
    #[must_use]
    pub(crate) fn kernels(&mut self, input: Input, rows: usize) -> Vec<(&'static str, String)> {
        let tape = match input {
            Input::Step => self
                .steps
                .get(&rows.next_power_of_two())
                .unwrap_or(&self.step),
            Input::Prompt => {
                let key = (rows.min(self.prefill_chunk), Ending::Token);
                let Some(tape) = self.prompts.get(&key) else {
                    return Vec::new();
                };
                tape
            }
            // A tower has an executor of its own.
            Input::Patches { .. } => return Vec::new(),
        };
        self.executor.launches(tape)
    }

    /// Returns the decode graph in DOT.
    pub(crate) fn graph_dot(&self) -> Result<String, RunError> {
        Ok(self.executor.graph_dot()?)
    }
}

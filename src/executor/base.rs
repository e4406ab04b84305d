//! State that both executors keep in the same way: recorded steps and prompts, preempted prompts, and counters.

use super::preempted::Preempted;
use super::step::StepTimes;
use crate::graph::{Buckets, Counts, DecodeGraph, GraphOptions, LifeCycle, Mode};

/// Recordings and counters of an executor. `E` replays one recording.
#[derive(Debug)]
pub struct Base<E> {
    pub graph: DecodeGraph<E>,
    pub prompts: Buckets<E>,
    /// Prompts that were preempted between two half layers.
    pub preempted: Preempted,
    /// The number of times that the address of a buffer has changed. A recording is valid for one value.
    pub moves: u64,
    pub times: StepTimes,
}

impl<E> Base<E> {
    #[must_use]
    pub fn new(options: &GraphOptions) -> Self {
        Self {
            graph: DecodeGraph::new(options.mode, options.verify_addresses),
            prompts: Buckets::new(options.capture_sizes.clone(), options.budget),
            preempted: Preempted::default(),
            moves: 0,
            times: StepTimes::default(),
        }
    }

    /// Drops all that belongs to memory which is released. The recordings of steps stay.
    pub fn retire(&mut self) {
        self.prompts.clear();
        self.preempted = Preempted::default();
    }

    /// Continues the recordings and counts of a retired executor.
    pub fn resume(&mut self, before: Self) {
        self.prompts.succeed(before.prompts.counts());
        self.graph.resume(before.graph);
    }

    /// Drops recordings and preempted prompts, because all memory except the weights has moved.
    pub fn renew(&mut self, options: &GraphOptions) {
        *self = Self {
            moves: self.moves + 1,
            times: self.times,
            ..Self::new(options)
        };
    }
}

impl Base<()> {
    /// Returns the counts and the life cycle of an executor without its recordings.
    #[must_use]
    pub fn of_counts(of: &dyn Graphs) -> Self {
        let mut counts = Self::new(&GraphOptions::default());
        counts.prompts.succeed(of.prompt_counts());
        *counts.life_mut() = of.life().clone();
        counts
    }
}

/// The life cycle and the counts of an executor's recordings, whatever replays them.
pub trait Graphs {
    /// The life cycle of the decode graph.
    fn life(&self) -> &LifeCycle;

    fn life_mut(&mut self) -> &mut LifeCycle;

    /// Counts of recorded prompts.
    fn prompt_counts(&self) -> Counts;

    /// Continues the counts of the executor that this one replaces.
    fn succeed(&mut self, before: &mut dyn Graphs);

    /// Drops all recordings. Recording is tried again if failures had disabled it.
    fn reset(&mut self);

    /// Drops all recordings and selects what to record from then on.
    fn set_mode(&mut self, mode: Mode);
}

impl<E> Graphs for Base<E> {
    fn life(&self) -> &LifeCycle {
        self.graph.life()
    }

    fn life_mut(&mut self) -> &mut LifeCycle {
        self.graph.life_mut()
    }

    fn prompt_counts(&self) -> Counts {
        self.prompts.counts()
    }

    fn succeed(&mut self, before: &mut dyn Graphs) {
        self.prompts.succeed(before.prompt_counts());
        self.life_mut().succeed(before.life_mut());
    }

    fn reset(&mut self) {
        self.prompts.clear();
        self.graph.reset();
    }

    fn set_mode(&mut self, mode: Mode) {
        self.prompts.clear();
        self.graph.set_mode(mode);
    }
}

//! Recorded prompts of a few sizes. A shorter prompt is padded to the next size, and a longer one runs eagerly.
//!
//! A recording contains addresses but no state of a turn, so it stays valid until an address or a geometry changes. The least
//! recently used recording is evicted when the budget is exceeded.

use super::event::State;
use super::life::LifeCycle;
use super::mode::Mode;
use super::stepper::Stepper;

/// The limits of recorded prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    pub graphs: usize,
    /// Device memory that the driver uses for them.
    pub bytes: u64,
}

/// The identity of a recording: a tape, and the slot where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub rows: usize,
    /// Whether the tape chooses a token.
    pub token: bool,
    pub slot: usize,
    /// The number of times that addresses have moved. Older recordings are invalid.
    pub moves: u64,
}

/// Counts of recorded prompts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Recordings in memory.
    pub held: u64,
    /// Recordings made since the start.
    pub recordings: u64,
    /// Replays since the start. A long prompt has several.
    pub launches: u64,
}

/// The recorded prompts of an executor.
#[derive(Debug)]
pub struct Buckets<E> {
    sizes: Vec<usize>,
    budget: Budget,
    /// The most recently used recording is the last.
    held: Vec<Held<E>>,
    recordings: u64,
    launches: u64,
}

#[derive(Debug)]
struct Held<E> {
    key: Key,
    exec: E,
    bytes: u64,
}

impl<E> Buckets<E> {
    /// `sizes` are the rows of prompts to record, in any order; a size of 0 is ignored.
    #[must_use]
    pub fn new(mut sizes: Vec<usize>, budget: Budget) -> Self {
        sizes.retain(|size| *size > 0);
        sizes.sort_unstable();
        Self {
            sizes,
            budget,
            held: Vec::new(),
            recordings: 0,
            launches: 0,
        }
    }

    /// Whether prompts with this number of rows are recorded.
    #[must_use]
    pub fn serve(&self, life: &LifeCycle, rows: usize) -> bool {
        life.mode() == Mode::Full && life.state() != State::Disabled && self.sizes.contains(&rows)
    }

    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            held: self.held.len() as u64,
            recordings: self.recordings,
            launches: self.launches,
        }
    }

    /// Adds the counts of the executor that this one replaces.
    pub fn succeed(&mut self, before: Counts) {
        self.recordings += before.recordings;
        self.launches += before.launches;
    }

    /// Drops all recordings.
    pub fn clear(&mut self) {
        self.held.clear();
    }

    /// Replays a prompt of a recorded size, after recording it if necessary. Runs it eagerly if the driver refuses.
    pub fn run<S: Stepper<Exec = E>>(
        &mut self,
        key: Key,
        prompt: &mut S,
        life: &mut LifeCycle,
    ) -> Result<(), S::Error> {
        match self.replay(key, prompt) {
            Ok(()) => Ok(()),
            Err(error) if S::is_refusal(&error) => {
                self.held.retain(|held| held.key != key);
                life.prompt_refused(S::refused(&error));
                // A second run does no harm unless the first one has chosen a token.
                if prompt.settle()? {
                    return Ok(());
                }
                prompt.eager(0..prompt.operations())
            }
            Err(error) => Err(error),
        }
    }

    /// Records a prompt without running it; a refusal is only counted.
    pub fn record<S: Stepper<Exec = E>>(
        &mut self,
        key: Key,
        prompt: &mut S,
        life: &mut LifeCycle,
    ) -> Result<(), S::Error> {
        match self.take(key, prompt) {
            Ok(held) => self.held.push(held),
            Err(error) if S::is_refusal(&error) => life.prompt_refused(S::refused(&error)),
            Err(error) => return Err(error),
        }
        self.evict();
        Ok(())
    }

    /// Removes the recording of a prompt from the list, or makes it.
    fn take<S: Stepper<Exec = E>>(
        &mut self,
        key: Key,
        prompt: &mut S,
    ) -> Result<Held<E>, S::Error> {
        self.held.retain(|held| held.key.moves == key.moves);
        if let Some(at) = self.held.iter().position(|held| held.key == key) {
            return Ok(self.held.remove(at));
        }
        let free = prompt.free_memory();
        let recording = prompt.record(0..prompt.operations())?;
        let exec = prompt.instantiate(recording)?;
        self.recordings += 1;
        let bytes = free.saturating_sub(prompt.free_memory());
        Ok(Held { key, exec, bytes })
    }

    fn replay<S: Stepper<Exec = E>>(&mut self, key: Key, prompt: &mut S) -> Result<(), S::Error> {
        let mut held = self.take(key, prompt)?;
        let launched = prompt.launch(&mut held.exec);
        self.held.push(held);
        launched?;
        self.launches += 1;
        self.evict();
        Ok(())
    }

    /// Evicts recordings beyond the budget. The last one is running, so it stays.
    fn evict(&mut self) {
        let over = |held: &[Held<E>], budget: Budget| {
            held.len() > budget.graphs.max(1)
                || held.iter().map(|held| held.bytes).sum::<u64>() > budget.bytes
        };
        while self.held.len() > 1 && over(&self.held, self.budget) {
            self.held.remove(0);
        }
    }
}

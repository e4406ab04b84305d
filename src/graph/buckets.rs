//! Prompts of a few sizes, recorded: a shorter one is padded to the next size, a longer one runs eagerly.
//!
//! They hold addresses, as the decode graph does, but no turn's state: only another address or geometry makes
//! one useless. The least recently used goes when there are too many or they take too much.

use super::life::LifeCycle;
use super::{Mode, State, Stepper};

/// How much may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    pub graphs: usize,
    /// The driver takes so much memory for them.
    pub bytes: u64,
}

/// Which recording serves: a tape, and where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub rows: usize,
    /// Whether it ends with a token.
    pub token: bool,
    /// The entry of the cache that it is for.
    pub entry: usize,
    /// How often addresses have moved: what was recorded before is useless.
    pub moves: u64,
}

/// What became of prompts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Recorded prompts held now.
    pub held: u64,
    /// So many were made since the start.
    pub recordings: u64,
    /// Prompts, or parts of them, that were replayed since the start.
    pub launches: u64,
}

/// Recorded prompts.
#[derive(Debug)]
pub struct Buckets<E> {
    sizes: Vec<usize>,
    budget: Budget,
    /// The most recently used last.
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
    /// `sizes` in any order; 0 is none.
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

    /// Whether prompts of so many rows are recorded.
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

    /// Goes on with the counts of another executor's prompts.
    pub fn succeed(&mut self, before: Counts) {
        self.recordings += before.recordings;
        self.launches += before.launches;
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.held.clear();
    }

    /// Runs a prompt of a recorded size: replayed, or recorded and replayed, or eagerly if the driver refuses.
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
                // To run it twice does no harm, unless it has chosen a token.
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

    /// The recording of a prompt, made if there is none.
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

    /// The last one stays whatever it takes: it is running.
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

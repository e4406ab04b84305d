//! Choosing a token: the parameters, and the state that a choice reads and advances. Both belong to the executor and
//! are not arguments of the tape, so one recorded step serves every request.
//! Not here: grammars, which make the masks (`guide`).

mod candidate;
mod history;
mod mask;
mod parameters;
mod partial;
mod philox;
mod promise;
mod sample;
mod scored;

pub use history::{History, WINDOW};
pub use mask::Mask;
pub use parameters::Parameters;
pub use partial::Partial;
pub use promise::{Promise, Promised};
pub use scored::{MOST_SCORED, Scored};

use candidate::Candidate;

/// The parameters and state of a choice.
#[derive(Clone, Debug, Default)]
pub struct Sampler {
    parameters: Parameters,
    /// The number of choices since `begin`, which is the counter of the random number generator.
    counter: u64,
    history: History,
    /// Tokens in descending probability. The buffer is reused, so only the first choice allocates.
    candidates: Vec<Candidate>,
}

impl Sampler {
    /// Starts a request. Its choices depend only on these arguments and the logits.
    pub fn begin(&mut self, parameters: Parameters, prompt: &[u32]) {
        self.parameters = parameters;
        self.counter = 0;
        self.history = History::of(prompt);
    }

    /// Returns the parameters of the request.
    #[must_use]
    pub const fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Returns a sampler that chooses the same tokens, without the memory for candidates.
    #[must_use]
    pub fn copied(&self) -> Self {
        Self {
            parameters: self.parameters,
            counter: self.counter,
            history: self.history.clone(),
            candidates: Vec::new(),
        }
    }

    /// Records a token that was given instead of chosen.
    pub fn accept(&mut self, token: u32) {
        self.counter += 1;
        self.history.push(token);
    }

    /// Replaces the last choice by another token.
    pub fn correct(&mut self, token: u32) {
        self.history.replace_last(token);
    }
}

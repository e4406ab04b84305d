//! How a token is chosen: the parameters, and the state that the choice reads and advances.
//!
//! Parameters, RNG counter and penalty history are state of the executor, not arguments of the tape,
//! so options never change a tape and a recorded step serves every request.

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

/// Everything that a choice depends on besides the logits.
#[derive(Clone, Debug, Default)]
pub struct Sampler {
    parameters: Parameters,
    /// Choices made since `begin`: the counter of the random number generator.
    counter: u64,
    history: History,
    /// Tokens in the order of their probability; kept, so that the first choice alone allocates.
    candidates: Vec<sample::Candidate>,
}

impl Sampler {
    /// Starts a request: its choices depend only on this and on the logits.
    pub fn begin(&mut self, parameters: Parameters, prompt: &[u32]) {
        self.parameters = parameters;
        self.counter = 0;
        self.history = History::of(prompt);
    }

    /// What it was begun with.
    #[must_use]
    pub const fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// A token was given rather than chosen; it counts as one.
    pub fn give(&mut self, token: u32) {
        self.counter += 1;
        self.history.push(token);
    }

    /// The last choice is another than was made.
    pub fn correct(&mut self, token: u32) {
        self.history.replace_last(token);
    }
}

//! The executors, as one: a match, and no more.

use super::cpu::Cpu;
#[cfg(feature = "cuda")]
use super::cuda::Cuda;
use super::{ExecuteError, StepState, Tape};
#[cfg(feature = "cuda")]
use crate::sampler::History;
use crate::sampler::Parameters;

/// What runs tapes.
#[derive(Debug)]
pub enum Executor {
    Cpu(Box<Cpu>),
    #[cfg(feature = "cuda")]
    Cuda(Box<Cuda>),
}

impl Executor {
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Cpu(_) => "cpu",
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => "cuda",
        }
    }

    /// Makes room for a tape: after this, running it allocates nothing.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn prepare(&mut self, tape: &Tape) -> Result<(), ExecuteError> {
        match self {
            Self::Cpu(cpu) => cpu.prepare(tape),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.prepare(tape)?,
        }
        Ok(())
    }

    /// Bytes of activations.
    #[must_use]
    pub fn activation_bytes(&self) -> u64 {
        match self {
            Self::Cpu(cpu) => cpu.activation_bytes() as u64,
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.activation_bytes(),
        }
    }

    /// Starts a request whose cache holds `position` positions.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn begin(
        &mut self,
        position: usize,
        parameters: Parameters,
        prompt: &[u32],
    ) -> Result<(), ExecuteError> {
        match self {
            Self::Cpu(cpu) => {
                cpu.state.position = position;
                cpu.sampler.begin(parameters, prompt);
            }
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.begin(position, parameters, &History::of(prompt))?,
        }
        Ok(())
    }

    /// The next step starts with `token` rather than the one chosen last.
    pub fn post(&mut self, token: u32) {
        match self {
            Self::Cpu(cpu) => cpu.state.token = token,
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.post(token),
        }
    }

    /// Where generation stands.
    #[must_use]
    pub fn state(&self) -> StepState {
        match self {
            Self::Cpu(cpu) => cpu.state,
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.state(),
        }
    }

    /// Runs a prepared tape. `tokens` are the rows of a prompt; a step takes its token from the state.
    ///
    /// # Errors
    /// A token outside the vocabulary, a position outside the context, logits that are not finite, a
    /// device that fails. The state is then as before.
    pub fn run(&mut self, tape: &Tape, tokens: &[u32]) -> Result<(), ExecuteError> {
        match self {
            Self::Cpu(cpu) => cpu.run(tape, tokens),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.run(tape, tokens),
        }
    }

    /// The row of logits that a tape of `Ending::Logits` left.
    #[must_use]
    pub fn logits(&self, tape: &Tape, row: usize) -> &[f32] {
        match self {
            Self::Cpu(cpu) => cpu.logits(tape, row),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.logits(row),
        }
    }
}

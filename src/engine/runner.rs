//! Drives one model on one executor: prefill in chunks, then step by step.
//!
//! It knows tokens and positions only: no queue, no sessions, no text. The offline tools use it directly.

use std::collections::HashMap;

use super::{Memory, load};
use crate::kv::Kv;
use crate::model::forward::Forward;
use crate::model::{Checkpoint, Shape};
use crate::sampler::Parameters;
use crate::tape::{DType, Ending, ExecuteError, Executor, Input, Tape, TapeError};

/// Which executor to run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The best that this build and this machine have.
    #[default]
    Auto,
    Cpu,
    Cuda,
}

/// Where weights and cache lie on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Unified on an integrated GPU, the device's own on others.
    #[default]
    Auto,
    Device,
    Unified,
}

/// How to run a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub backend: Backend,
    pub kv_type: DType,
    /// Positions of the cache; 0 is as many as the model was trained for.
    pub context: usize,
    /// 0 is one for each core.
    pub threads: usize,
    /// Rows of a prompt that run at once, at least 1.
    pub prefill_chunk: usize,
    pub cuda: CudaSettings,
}

/// What only the CUDA backend asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaSettings {
    /// f16 or bf16: what matrix products take in.
    pub activations: DType,
    pub weights: Placement,
    pub kv: Placement,
    /// Whether a step is recorded once and replayed.
    pub graph: bool,
    pub spin: std::time::Duration,
    /// Refuse on a discrete GPU what an Orin would not allow.
    pub emulate_tegra: bool,
}

impl Default for CudaSettings {
    fn default() -> Self {
        Self {
            activations: DType::F16,
            weights: Placement::Auto,
            kv: Placement::Auto,
            graph: true,
            spin: std::time::Duration::from_micros(50),
            emulate_tegra: false,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            backend: Backend::Auto,
            kv_type: DType::F16,
            context: 2048,
            threads: 0,
            prefill_chunk: 64,
            cuda: CudaSettings::default(),
        }
    }
}

/// A loaded model, its cache, and where generation stands.
#[derive(Debug)]
pub struct Runner {
    forward: Forward,
    executor: Executor,
    /// Which device, or why it is not another.
    description: String,
    kv: Kv,
    step: Tape,
    /// Tapes of a prompt's rows, each written on its first use.
    prompts: HashMap<(usize, Ending), Tape>,
    prefill_chunk: usize,
    weight_bytes: u64,
}

impl Runner {
    /// Loads the weights, calling `progress` with the bytes read so far and in all.
    ///
    /// # Errors
    /// If the files cannot be read, or the model does not fit its tape.
    pub fn load(
        checkpoint: &Checkpoint,
        settings: &Settings,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self, load::LoadError> {
        let load::Loaded {
            forward,
            executor,
            description,
        } = load::load(checkpoint, settings, progress)?;
        let step = forward.tape(1, Input::Step, Ending::Token);
        step.check()?;
        let mut runner = Self {
            forward,
            executor,
            description,
            kv: Kv::default(),
            step,
            prompts: HashMap::new(),
            prefill_chunk: settings.prefill_chunk.max(1),
            weight_bytes: checkpoint.weight_bytes(),
        };
        // The largest first: what it allocates serves all others.
        runner.prompt_tape(runner.prefill_chunk, Ending::Token)?;
        runner
            .executor
            .prepare(&runner.step)
            .map_err(RunError::from)?;
        Ok(runner)
    }

    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.forward.shape
    }

    #[must_use]
    pub fn backend(&self) -> &'static str {
        self.executor.name()
    }

    /// Which device that is, and why it is not another; for people.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// What the executor has launched.
    #[must_use]
    pub fn executor(&self) -> &Executor {
        &self.executor
    }

    /// Positions of the cache.
    #[must_use]
    pub fn context(&self) -> usize {
        self.forward.kv.context
    }

    /// The largest `tokens` that `prefill` takes.
    #[must_use]
    pub fn prefill_chunk(&self) -> usize {
        self.prefill_chunk
    }

    #[must_use]
    pub fn memory(&self) -> Memory {
        Memory {
            weights: self.weight_bytes,
            kv: (self.forward.kv.bytes_per_position() * self.forward.kv.context) as u64,
            activations: self.executor.activation_bytes(),
        }
    }

    /// Tokens in the cache.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kv.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kv.is_empty()
    }

    /// Starts a turn: keeps what the cache already holds of `prompt`, and returns how many tokens that
    /// are; the rest, at least one token, is for `prefill`.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn begin(&mut self, prompt: &[u32], parameters: Parameters) -> Result<usize, RunError> {
        let cached = self
            .kv
            .common_prefix(prompt)
            .min(prompt.len().saturating_sub(1));
        self.kv.truncate(cached);
        self.executor.begin(cached, parameters, prompt)?;
        Ok(cached)
    }

    /// Runs at most `prefill_chunk` tokens of a prompt. With `Ending::Token` the next token has been
    /// chosen when it returns.
    ///
    /// # Errors
    /// As `Executor::run`; the cache then holds what it held before.
    pub fn prefill(&mut self, tokens: &[u32], ending: Ending) -> Result<(), RunError> {
        if tokens.is_empty() {
            return Ok(());
        }
        if let (&[token], Ending::Token) = (tokens, ending) {
            self.executor.post(token);
            return self.step().map(drop);
        }
        self.prompt_tape(tokens.len(), ending)?;
        let tape = &self.prompts[&(tokens.len(), ending)];
        self.executor.run(tape, tokens)?;
        self.kv.extend(tokens);
        Ok(())
    }

    /// The token that was chosen last, which the next `step` will run.
    #[must_use]
    pub fn token(&self) -> u32 {
        self.executor.state().token
    }

    /// Runs the chosen token and chooses the one after it.
    ///
    /// # Errors
    /// As `Executor::run`; the cache then holds what it held before.
    pub fn step(&mut self) -> Result<u32, RunError> {
        let token = self.executor.state().token;
        self.executor.run(&self.step, &[])?;
        self.kv.push(token);
        Ok(self.executor.state().token)
    }

    /// Bytes that the next `step` must move.
    #[must_use]
    pub fn step_bytes(&self) -> u64 {
        self.step.bytes(self.kv.len())
    }

    /// Runs `tokens` after what the cache holds, and calls `each` with every row's logits in order.
    ///
    /// # Errors
    /// As `Executor::run`.
    pub fn logits(&mut self, tokens: &[u32], mut each: impl FnMut(&[f32])) -> Result<(), RunError> {
        for chunk in tokens.chunks(self.prefill_chunk) {
            self.prefill(chunk, Ending::Logits)?;
            let tape = &self.prompts[&(chunk.len(), Ending::Logits)];
            (0..chunk.len()).for_each(|row| each(self.executor.logits(tape, row)));
        }
        Ok(())
    }

    fn prompt_tape(&mut self, rows: usize, ending: Ending) -> Result<(), RunError> {
        if !self.prompts.contains_key(&(rows, ending)) {
            let tape = self.forward.tape(rows, Input::Prompt, ending);
            tape.check()?;
            self.executor.prepare(&tape)?;
            self.prompts.insert((rows, ending), tape);
        }
        Ok(())
    }
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    #[error("the model does not fit its tape: {0}")]
    Tape(#[from] TapeError),
}

impl RunError {
    /// Whether nothing can run any more in this process.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        match self {
            #[cfg(feature = "cuda")]
            Self::Execute(ExecuteError::Device(error)) => error.is_sticky(),
            Self::Execute(_) | Self::Tape(_) => false,
        }
    }
}

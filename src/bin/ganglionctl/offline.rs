//! The side of `ganglionctl` that opens a model itself: no daemon, no D-Bus, no tokenizer.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ganglion::engine::LoadError;
use ganglion::engine::runner::{self, RunError, Runner, Settings};
use ganglion::model::{Checkpoint, ModelError};
use ganglion::sampler::Parameters;
use ganglion::tape::{DType, Ending};

use crate::failure::{Exit, Failure};

/// Which model to run, and how.
#[derive(Debug, Args)]
pub(crate) struct Setup {
    /// A .gguf file, or a directory with config.json and model.safetensors
    #[arg(long, value_name = "M")]
    pub(crate) model: PathBuf,
    /// What computes; auto takes the best that this machine has
    #[arg(long, value_enum, default_value = "auto")]
    backend: Backend,
    /// The type of the key-value cache
    #[arg(long, value_enum, default_value = "f16")]
    kv: KvType,
    /// Threads of the CPU backend; 0 is one for each core
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) threads: usize,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Backend {
    Auto,
    Cpu,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum KvType {
    F32,
    F16,
    Bf16,
}

impl Setup {
    /// Opens the files and checks them.
    pub(crate) fn open(&self) -> Result<Checkpoint, Failure> {
        Checkpoint::open(&self.model).map_err(|error| bad_model(&error))
    }

    /// Loads the weights, for `context` positions.
    pub(crate) fn load(&self, checkpoint: &Checkpoint, context: usize) -> Result<Runner, Failure> {
        let trained = checkpoint.shape.context;
        if context > trained {
            return Err(Failure::new(
                Exit::Data,
                format!(
                    "this takes {context} positions and the model was trained for {trained}; \
                     shorten the prompt, or generate less"
                ),
            ));
        }
        let settings = Settings {
            backend: match self.backend {
                Backend::Auto => runner::Backend::Auto,
                Backend::Cpu => runner::Backend::Cpu,
            },
            kv_type: self.kv_type(),
            context,
            threads: self.threads,
            ..Settings::default()
        };
        Runner::load(checkpoint, &settings, &mut |_, _| ()).map_err(|error| match error {
            LoadError::Model(error) => bad_model(&error),
            LoadError::Memory { .. } => Failure::new(Exit::Unavailable, error.to_string()),
            error => Failure::new(Exit::Failed, error.to_string()),
        })
    }

    pub(crate) const fn kv_type(&self) -> DType {
        match self.kv {
            KvType::F32 => DType::F32,
            KvType::F16 => DType::F16,
            KvType::Bf16 => DType::BF16,
        }
    }
}

/// Makes the cache hold `prompt` and chooses the first token after it, greedily.
///
/// # Errors
/// As `Runner::prefill`.
pub(crate) fn prefill(runner: &mut Runner, prompt: &[u32]) -> Result<u32, RunError> {
    let cached = runner.begin(prompt, Parameters::default());
    let mut rest = prompt.get(cached..).unwrap_or_default();
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(rest.len().min(runner.prefill_chunk()));
        let last = after.is_empty();
        runner.prefill(chunk, if last { Ending::Token } else { Ending::Kv })?;
        rest = after;
    }
    Ok(runner.token())
}

/// Empties the cache.
pub(crate) fn forget(runner: &mut Runner) {
    runner.begin(&[], Parameters::default());
}

/// Files that no model can be made of.
pub(crate) fn bad_model(error: &ModelError) -> Failure {
    Failure::new(Exit::Data, error.to_string())
}

/// A run that failed fails on its input: ids, or values that the weights lead to.
pub(crate) fn bad_run(error: &RunError) -> Failure {
    Failure::new(Exit::Data, error.to_string())
}

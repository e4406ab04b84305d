//! The side of `ganglionctl` that opens a model itself, without daemon, D-Bus or tokenizer.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ganglion::load::{
    Activations, Backend, CudaSettings, KvChoice, KvChoices, LoadError, Placement, Precision,
    Settings,
};
use ganglion::model::{Checkpoint, Defect, ModelError};

use crate::choice::choice;
use crate::failure::{Failure, Outcome, bail, failure};

/// The model to run, and the settings.
#[derive(Debug, Args)]
pub(crate) struct Setup {
    /// A .gguf file, or a directory with config.json and model.safetensors
    #[arg(long, value_name = "M")]
    pub(crate) model: PathBuf,
    /// The backend; auto takes the best one that this machine has
    #[arg(long, value_parser = choice::<Backend>(), default_value = "auto")]
    backend: Backend,
    /// The type of the key-value cache; q8_0 takes a little more than half the memory of f16. Without a measurement,
    /// auto is q8_0 for V alone
    #[arg(long, value_parser = choice::<KvChoice>(), default_value = "f16")]
    kv: KvChoice,
    /// The type of K alone, instead of --kv
    #[arg(long, value_parser = choice::<KvChoice>())]
    kv_k: Option<KvChoice>,
    /// The type of V alone, instead of --kv
    #[arg(long, value_parser = choice::<KvChoice>())]
    kv_v: Option<KvChoice>,
    /// Threads of the CPU backend; 0 is one for each core
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// The precision of activations on the CPU
    #[arg(long = "cpu-activations", value_parser = choice::<Precision>(), default_value = "i16")]
    precision: Precision,
    /// Rows of a prompt that run at once; 0 chooses the number by the memory
    #[arg(long, value_name = "N", default_value_t = 0)]
    prefill_chunk: usize,
    /// The type of activations in matrix products of the CUDA backend
    #[arg(long, value_parser = choice::<Activations>(), default_value = "f16")]
    activations: Activations,
    /// The memory for weights and cache of the CUDA backend
    #[arg(long, value_parser = choice::<Placement>(), default_value = "auto")]
    memory: Placement,
    /// MiB that loading leaves to the rest of the system
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u64).range(..=1 << 20))]
    reserve_mib: u64,
    /// Microseconds that a thread spins for a token before it sleeps (CUDA backend)
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    spin_us: u64,
    /// On a discrete GPU, refuse accesses that an Orin would not allow
    #[arg(long)]
    emulate_tegra: bool,
    /// Run on a partition of at least this many of the GPU's multiprocessors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    sms: Option<u32>,
}

impl Setup {
    /// Opens the files and checks them.
    pub(crate) fn open(&self) -> Outcome<Checkpoint> {
        Checkpoint::open(&self.model).map_err(bad_model)
    }

    /// Returns the settings, without a verb's own memory requirements.
    pub(crate) fn settings(&self) -> Outcome<Settings> {
        if self.sms.is_some() && self.backend == Backend::Cpu {
            bail!(Usage: "--sms needs a GPU: leave out --sms or --backend cpu");
        }
        Ok(Settings {
            backend: match self.backend {
                // A CPU has no multiprocessors.
                Backend::Auto if self.sms.is_some() => Backend::Cuda,
                backend => backend,
            },
            kv_type: KvChoices {
                k: self.kv_k.unwrap_or(self.kv),
                v: self.kv_v.unwrap_or(self.kv),
            },
            threads: self.threads,
            precision: self.precision,
            prefill_chunk: self.prefill_chunk,
            cuda: CudaSettings {
                activations: self.activations.into(),
                weights: self.memory,
                kv: self.memory,
                spin: Duration::from_micros(self.spin_us),
                emulate_tegra: self.emulate_tegra,
                multiprocessors: self.sms,
            },
            reserve: self.reserve_mib << 20,
            ..Settings::default()
        })
    }
}

/// Converts the error of a load, with a remedy that fits the command line.
pub(crate) fn not_loaded(error: LoadError) -> Failure {
    match error {
        LoadError::Model(error) => bad_model(error),
        LoadError::Context { asked, trained } => failure!(
            Data: "this takes {asked} positions and the model was trained for {trained}; shorten the prompt, or generate less"
        ),
        #[cfg(feature = "cuda")]
        LoadError::Device(_) | LoadError::Unsuited(_) => failure!(Unavailable: "{error}"),
        LoadError::Memory(_) => failure!(Unavailable: "{error}"),
        error => failure!(Failed: "{error}"),
    }
}

/// Converts the error of invalid files, which an option has named, and not the configuration.
#[allow(clippy::needless_pass_by_value)] // as errors are mapped
pub(crate) fn bad_model(error: ModelError) -> Failure {
    match &error.defect {
        Defect::Io(why) => failure!(Data: "--model {}: {why}", error.path.display()),
        _ => failure!(Data: "--model {error}"),
    }
}

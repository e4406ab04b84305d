//! What loading a model and its steps take on this machine, measured beside how fast the machine moves memory.
//!
//! It drives a runner as the engine does and prints nothing: a report is for whoever asked. It judges nothing either.

mod anatomy;
mod ceiling;
mod context;
mod disk;
mod kinds;
mod loading;
mod memory;
mod report;
pub mod score;
mod steps;

use std::path::Path;

use clap::builder::RangedU64ValueParser;
use clap::{Args, value_parser};

pub use self::context::{Context, Speed};
pub use self::kinds::Kind;
pub use self::report::Report;

use self::ceiling::Ceiling;
use self::disk::Files;
use self::loading::{Load, Loading};
use self::memory::Resident;
use self::steps::Workload;
use crate::graph::Mode;
use crate::load::{self, Backend, KvMemory, LoadError, Settings};
use crate::model::{Checkpoint, ModelError};
use crate::runner::{RunError, Runner};
use crate::sampler::Parameters;

/// What is measured, as command lines ask for it.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct Plan {
    /// Tokens of the prompt; several numbers are measured one after another, with the model loaded once
    #[arg(long = "prompt", value_name = "P,...", value_delimiter = ',', default_value = "512", value_parser = some())]
    prompts: Vec<usize>,
    /// Tokens to generate after it
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = some())]
    generate: usize,
    /// How often to measure
    #[arg(long, value_name = "R", default_value_t = 3, value_parser = some())]
    reps: usize,
    /// What of the work is recorded and replayed; several are measured one after another
    #[arg(long = "mode", value_name = "MODE,...", value_delimiter = ',', value_enum, default_value = Mode::default().name())]
    modes: Vec<Mode>,
    /// Conversations that step together, each after a prompt of its own; several numbers are measured one after another
    #[arg(long, value_name = "R,...", value_delimiter = ',', value_parser = value_parser!(u8).range(1..=8))]
    rows: Vec<u8>,
    /// Draw each token at so high a temperature; 0 takes the most probable
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    temperature: f32,
    /// Draw it among so many of the most probable ones; 0 is all
    #[arg(long, value_name = "K", default_value_t = 0)]
    top_k: u32,
    /// Draw it among the most probable ones that reach so much together
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    top_p: f32,
}

/// Tokens, or repetitions: more than any model has positions is a typing error.
fn some() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=1 << 20)
}

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Run(#[from] RunError),
}

impl Plan {
    /// The longest prompt has so many tokens.
    fn longest(&self) -> usize {
        self.prompts.iter().copied().max().unwrap_or(1)
    }

    /// `settings` with room for what is planned.
    fn settings(&self, settings: &Settings) -> Settings {
        let conversations = self.rows.iter().max().map_or(1, |rows| usize::from(*rows));
        let mut settings = settings.clone();
        settings.context = self.longest().saturating_add(self.generate);
        settings.kv_memory = KvMemory::Conversations(conversations);
        settings.rows = conversations;
        settings.graph.mode = self.modes[0];
        settings
    }

    fn workload<'a>(&self, prompt: &'a [u32]) -> Workload<'a> {
        Workload {
            prompt,
            generate: self.generate,
            parameters: Parameters {
                temperature: self.temperature,
                top_k: self.top_k,
                top_p: self.top_p,
                ..Parameters::default()
            },
        }
    }

    /// Measures after a prompt of each length, which is the first so many `ids`.
    fn measure(&self, runner: &mut Runner, ids: &[u32]) -> Result<Vec<Context>, RunError> {
        let prompts = || self.prompts.iter().map(|length| &ids[..*length]);
        let mut contexts = prompts()
            .map(|prompt| Context::time(runner, prompt, self))
            .collect::<Result<Vec<_>, _>>()?;
        for (context, prompt) in contexts.iter_mut().zip(prompts()) {
            context.look_inside(runner, prompt, self)?;
        }
        Ok(contexts)
    }

    /// Loads the model at `path` twice, from the disk and from the page cache, and measures what the second one does.
    /// `settings` say what it runs on; what they leave to the plan is the room that it needs.
    ///
    /// # Errors
    /// If it has fewer positions than planned, it does not fit the memory, or its device fails.
    pub fn run(&self, path: &Path, settings: &Settings) -> Result<Report, BenchError> {
        let settings = self.settings(settings);
        let files = Files::of(path).ok();
        // Where they cannot be forgotten, what is opened next says why.
        let _ = files.as_ref().map(Files::forget);
        let checkpoint = Checkpoint::open(path)?;
        let load = |checkpoint: &Checkpoint| {
            Load::time(|progress| load::runner(checkpoint, &settings, progress))
        };
        let may_use_gpu = settings.backend != Backend::Cpu;
        let ((runner, loaded), watched) = loading::watch(may_use_gpu, || load(&checkpoint));
        let mut runner = runner?;
        let disk = files.as_ref().and_then(Files::disk);
        let mut cached = None;
        if let Some(files) = &files {
            // Two models have no room everywhere.
            drop(runner);
            let remembered = files.remember();
            // It is opened anew: whether the page cache has a file is looked at only once.
            let (again, load) = load(&Checkpoint::open(path)?);
            runner = again?;
            cached = Some(load).filter(|_| remembered);
        }
        // The ids are the same in every run and on every machine.
        let mut random = fastrand::Rng::with_seed(0x9e37_79b9_7f4a_7c15);
        let vocabulary = u32::try_from(checkpoint.shape.vocabulary).unwrap_or(u32::MAX);
        let ids: Vec<_> = (0..self.longest())
            .map(|_| random.u32(..vocabulary))
            .collect();
        let mut contexts = self.measure(&mut runner, &ids)?;
        // It is read before the buffer of the next measurement counts as ours.
        let resident_bytes = Resident::read();
        let threads = match settings.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let loading = Loading::new((loaded, &watched), disk, cached, runner.memory());
        let multiprocessors = runner.executor().multiprocessors();
        let (backend, kv) = (runner.backend(), runner.kv_selection());
        let ceiling = Ceiling::measure(runner, threads, settings.cuda.multiprocessors);
        if let Some(ceiling) = ceiling {
            let contexts = contexts.iter_mut();
            contexts.for_each(|context| context.hold_against(ceiling));
        }
        let speed = |copies| {
            let ceiling = ceiling.filter(|ceiling| ceiling.copies == copies);
            ceiling.map(|ceiling| ceiling.bytes_per_second / 1e9)
        };
        Ok(Report {
            version: env!("CARGO_PKG_VERSION"),
            model: checkpoint.name,
            model_bytes: files.map(|files| files.bytes()),
            backend,
            kv: kv.types.name(),
            threads,
            multiprocessors: multiprocessors.map(|(some, _)| some),
            of_multiprocessors: multiprocessors.map(|(_, all)| all),
            generate: self.generate,
            mode: self.modes[0].name(),
            first: contexts.first().cloned(),
            contexts,
            loading,
            read_gigabytes_per_second: speed(false),
            copy_gigabytes_per_second: speed(true),
            resident_bytes,
        })
    }
}

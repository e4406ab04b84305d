//! Measures loading, prompts and steps of a model on this machine, and the memory bandwidth that bounds them. It drives
//! a runner as the engine does.
//! Not here: printing, and judging the figures.

mod anatomy;
mod ceiling;
mod context;
mod disk;
mod kinds;
mod loading;
mod memory;
mod plan;
mod report;
pub mod score;
mod steps;

use std::path::Path;

pub use self::context::{Context, Speed};
pub use self::kinds::StepKind;
pub use self::plan::Plan;
pub use self::report::Report;

use self::ceiling::Ceiling;
use self::disk::Files;
use self::loading::{Load, Loading};
use self::memory::Resident;
use crate::load::{self, Backend, LoadError, Settings};
use crate::model::{Checkpoint, ModelError};
use crate::runner::{RunError, Runner};

/// The reason why nothing could be measured.
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
    /// Measures after a prompt of each length; a prompt is a prefix of `ids`.
    fn measure(&self, runner: &mut Runner, ids: &[u32]) -> Result<Vec<Context>, RunError> {
        let prompts = || self.prompts.iter().map(|length| &ids[..*length]);
        let mut contexts = prompts()
            .map(|prompt| Context::time(runner, prompt, self))
            .collect::<Result<Vec<_>, _>>()?;
        for (context, prompt) in contexts.iter_mut().zip(prompts()) {
            context.measure_operations(runner, prompt, self)?;
        }
        Ok(contexts)
    }

    /// Loads the model at `path` twice, from the disk and from the page cache, and measures the second one. The plan
    /// determines the context and the rows; `settings` has everything else.
    ///
    /// # Errors
    /// If the model has fewer positions than planned or does not fit the memory, or its device fails.
    pub fn run(&self, path: &Path, settings: &Settings) -> Result<Report, BenchError> {
        let settings = self.settings(settings);
        let files = Files::of(path).ok();
        // If this fails, the load below reports the reason.
        let _ = files.as_ref().map(Files::drop_from_cache);
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
            // Not every machine has room for two models.
            drop(runner);
            let remembered = files.read_into_cache();
            // A file's presence in the page cache is checked only once, when it is opened.
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
        // Read before the buffer of the bandwidth measurement is allocated.
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
            contexts.for_each(|context| context.compare_with_memory(ceiling));
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

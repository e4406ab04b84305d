//! `ganglionctl bench`: how fast a model loads and runs here, beside how fast this machine moves memory.

mod available;
mod ceiling;
mod loading;
mod report;
mod resident;

use std::io;
use std::path::Path;
use std::time::Instant;

use clap::Parser;
use ganglion::engine::runner::{RunError, Runner};
use ganglion::tape::Executor;

use crate::failure::{Exit, Failure};
use crate::offline::{self, Setup, bad_run};
use crate::output;
use loading::Loading;
use report::{Ceiling, Report, Speed};
use resident::Resident;

/// Measures prefill and decode with random token ids; loads no tokenizer
#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    #[command(flatten)]
    setup: Setup,
    /// Tokens of the prompt
    #[arg(long, value_name = "P", default_value_t = 512, value_parser = at_least_one)]
    prompt: usize,
    /// Tokens to generate after it
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = at_least_one)]
    generate: usize,
    /// How often to measure
    #[arg(long, value_name = "R", default_value_t = 3, value_parser = at_least_one)]
    reps: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".into()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("{error}")),
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let Arguments {
        setup,
        prompt,
        generate,
        reps,
        json,
    } = arguments;
    let checkpoint = setup.open()?;
    let (runner, watched) = loading::watch(setup.may_use_gpu(), || {
        setup.load(&checkpoint, prompt.saturating_add(*generate))
    });
    let mut runner = runner?;
    let ids = random_ids(*prompt, checkpoint.shape.vocabulary);
    let speeds: Vec<Speed> = (0..*reps)
        .map(|_| measure(&mut runner, &ids, *generate))
        .collect::<Result<_, _>>()
        .map_err(|error| bad_run(&error))?;
    // Before the buffer of the next measurement counts as ours.
    let resident = Resident::read();
    let threads = match setup.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let model_bytes = file_bytes(&setup.model).ok();
    let loading = Loading::new(&watched, runner.memory(), model_bytes);
    let setting = report::Setting {
        version: env!("CARGO_PKG_VERSION"),
        model: checkpoint.name.clone(),
        model_bytes,
        backend: runner.backend(),
        kv: setup.kv_type().name(),
        threads,
        prompt: *prompt,
        generate: *generate,
        step_nodes: Some(runner.executor().graph().nodes()).filter(|nodes| *nodes > 0),
    };
    let ceiling = match runner.executor() {
        Executor::Cpu(_) => ceiling::read_bandwidth(threads).map(Ceiling::Read),
        #[cfg(feature = "cuda")]
        Executor::Cuda(_) => {
            // A small GPU may have no room for the copy beside the model.
            drop(runner);
            ceiling::copy_bandwidth().map(Ceiling::Copy)
        }
    };
    let report = Report::new(speeds, ceiling, setting, loading, resident);
    if *json {
        output::print_json(&report)?;
    } else {
        output::print(&report.to_string())?;
    }
    Ok(Exit::Ok)
}

/// One repetition, from an empty cache.
#[allow(clippy::cast_precision_loss)] // counts of tokens and of bytes moved, shown to three digits
fn measure(runner: &mut Runner, prompt: &[u32], generate: usize) -> Result<Speed, RunError> {
    offline::forget(runner)?;
    let start = Instant::now();
    offline::prefill(runner, prompt)?;
    let prefill = start.elapsed().as_secs_f64();

    let mut bytes = 0;
    let start = Instant::now();
    for _ in 0..generate {
        bytes += runner.step_bytes();
        runner.step(true)?;
    }
    let decode = start.elapsed().as_secs_f64();
    Ok(Speed {
        prefill: prompt.len() as f64 / prefill,
        decode: generate as f64 / decode,
        moved: bytes as f64 / decode / 1e9,
    })
}

/// The same ids in every run and on every machine (the generator is Marsaglia's xorshift64).
fn random_ids(count: usize, vocabulary: usize) -> Vec<u32> {
    let vocabulary = u64::try_from(vocabulary).unwrap_or(u64::MAX).max(1);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            u32::try_from(state % vocabulary).unwrap_or(0)
        })
        .collect()
}

/// Bytes of a model's file, or of the weights in its directory.
fn file_bytes(model: &Path) -> io::Result<u64> {
    if !model.is_dir() {
        return Ok(model.metadata()?.len());
    }
    let mut bytes = 0;
    for entry in model.read_dir()? {
        let path = entry?.path();
        if path.extension().is_some_and(|name| name == "safetensors") {
            bytes += path.metadata()?.len();
        }
    }
    Ok(bytes)
}

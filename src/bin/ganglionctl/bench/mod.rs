//! `ganglionctl bench`: how fast a model loads and runs here, beside how fast this machine moves memory.

mod anatomy;
mod ceiling;
mod context;
mod disk;
mod kinds;
mod loading;
mod memory;
mod plot;
mod report;
mod statistics;
mod together;
mod turn;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Parser, value_parser};
use ganglion::engine::runner::{RunError, Runner};
use ganglion::executor::Executor;
use ganglion::graph::Mode;
use ganglion::model::Checkpoint;

use crate::failure::{Exit, OrFail as _, Outcome};
use crate::offline::Setup;
use crate::output;
use ceiling::Ceiling;
use context::Context;
use disk::Files;
use loading::{Cached, Loading, Reading};
use memory::Resident;
use report::Report;

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    #[command(flatten)]
    setup: Setup,
    /// Tokens of the prompt; several numbers are measured one after another, with the model loaded once
    #[arg(long = "prompt", value_name = "P,...", value_delimiter = ',', default_value = "512", value_parser = at_least_one)]
    prompts: Vec<usize>,
    /// Tokens to generate after it
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = at_least_one)]
    generate: usize,
    /// How often to measure
    #[arg(long, value_name = "R", default_value_t = 3, value_parser = at_least_one)]
    reps: usize,
    /// What of the work is recorded and replayed; several are measured one after another
    #[arg(long = "mode", value_name = "MODE,...", value_delimiter = ',', value_enum, default_value = Mode::default().name())]
    modes: Vec<Mode>,
    /// Conversations that step together, each after a prompt of its own; several numbers are measured one after another
    #[arg(long, value_name = "R,...", value_delimiter = ',', value_parser = value_parser!(u8).range(1..=8))]
    rows: Vec<u8>,
    /// Also draw it, as SVG: the time of each kind of operation, the speeds against the prompt's length
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
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

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let Arguments {
        setup,
        prompts,
        generate,
        modes,
        rows,
        plot,
        json,
        ..
    } = arguments;
    let files = Files::of(&setup.model);
    // Where it cannot be forgotten, what is opened next says why.
    let _ = files.as_ref().map(Files::forget);
    let checkpoint = setup.open()?;
    let longest = prompts.iter().copied().max().unwrap_or(1);
    let load = |checkpoint: &Checkpoint, reading: &mut Reading| {
        let context = longest.saturating_add(*generate);
        let conversations = rows.iter().max().map_or(1, |rows| usize::from(*rows));
        let noted = &mut |read, all| reading.note(read, all);
        setup.load(checkpoint, (context, conversations), modes[0], noted)
    };
    let (runner, watched) =
        loading::watch(setup.may_use_gpu(), |reading| load(&checkpoint, reading));
    let mut runner = runner?;
    let disk = files.as_ref().ok().and_then(Files::disk);
    let mut cached = None;
    if let Ok(files) = &files {
        // Two have no room everywhere.
        drop(runner);
        let remembered = files.remember();
        // Opened anew: it looks only once whether the page cache has it.
        let again = setup.open()?;
        let (start, mut reading) = (Instant::now(), Reading::default());
        runner = load(&again, &mut reading)?;
        let load = start.elapsed();
        cached = remembered.map(|()| Cached { load, reading });
    }
    let ids = random_ids(longest, checkpoint.shape.vocabulary);
    let contexts = measure(&mut runner, &ids, arguments).or_exit(Exit::Data)?;
    // Before the buffer of the next measurement counts as ours.
    let resident = Resident::read();
    let threads = match setup.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let model_bytes = files.and_then(|files| files.bytes()).ok();
    let loading = Loading::new(&watched, disk, cached.as_ref(), runner.memory());
    let multiprocessors = runner.executor().multiprocessors();
    let setting = report::Setting {
        version: env!("CARGO_PKG_VERSION"),
        model: checkpoint.name.clone(),
        model_bytes,
        backend: runner.backend(),
        kv: setup.kv.name(),
        threads,
        multiprocessors: multiprocessors.map(|(some, _)| some),
        of_multiprocessors: multiprocessors.map(|(_, all)| all),
        generate: *generate,
        mode: modes[0].name(),
    };
    let ceiling = match runner.executor() {
        Executor::Cpu(_) => ceiling::read_bandwidth(threads).map(Ceiling::Read),
        #[cfg(feature = "cuda")]
        Executor::Cuda(_) => {
            // A small GPU may have no room for the copy beside the model.
            drop(runner);
            ceiling::copy_bandwidth(setup.sms).map(Ceiling::Copy)
        }
    };
    let report = Report::new(contexts, ceiling, setting, loading, resident);
    if *json {
        output::print_json(&report)?;
    } else {
        output::print(&report.to_string())?;
    }
    plot.as_deref().map_or(Ok(()), |file| draw(&report, file))
}

fn draw(report: &Report, file: &Path) -> Outcome {
    let what = format!("--plot {}", file.display());
    let svg = plot::svg(report).or_fail(Exit::Failed, &what)?;
    fs::write(file, svg).or_fail(Exit::Failed, &what)
}

/// After a prompt of each length, its first so many `ids`.
fn measure(
    runner: &mut Runner,
    ids: &[u32],
    arguments: &Arguments,
) -> Result<Vec<Context>, RunError> {
    let prompts = || arguments.prompts.iter().map(|length| &ids[..*length]);
    let mut contexts = prompts()
        .map(|prompt| Context::time(runner, prompt, arguments))
        .collect::<Result<Vec<_>, _>>()?;
    for (context, prompt) in contexts.iter_mut().zip(prompts()) {
        context.look_inside(runner, prompt, arguments)?;
    }
    Ok(contexts)
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

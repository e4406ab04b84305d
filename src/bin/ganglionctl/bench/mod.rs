//! `ganglionctl bench`: how fast a model loads and runs here, beside how fast this machine moves memory.

mod anatomy;
mod available;
mod ceiling;
mod disk;
mod kinds;
mod loading;
mod report;
mod resident;
mod statistics;
mod together;
mod turn;

use std::time::Instant;

use clap::{Parser, value_parser};
use ganglion::engine::runner::{RunError, Runner};
use ganglion::graph::Mode;
use ganglion::model::Checkpoint;
use ganglion::tape::Executor;

use crate::failure::{Exit, Failure};
use crate::offline::{self, Setup, bad_run};
use crate::output;
use anatomy::Anatomy;
use disk::Files;
use loading::{Cached, Loading, Reading};
use report::{Ceiling, Measured, Report, Speed};
use resident::Resident;
use turn::Turn;

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
    /// What of the work is recorded and replayed; several are measured one after another
    #[arg(long = "mode", value_name = "MODE,...", value_delimiter = ',', value_parser = offline::mode(),
        default_value = Mode::default().name())]
    modes: Vec<Mode>,
    /// Conversations that step together, each after a prompt of its own; several numbers are measured one after another
    #[arg(long, value_name = "R,...", value_delimiter = ',', value_parser = value_parser!(u8).range(1..=8))]
    rows: Vec<u8>,
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
        modes,
        rows,
        json,
        ..
    } = arguments;
    let files = Files::of(&setup.model);
    // Where it cannot be forgotten, what is opened next says why.
    let _ = files.as_ref().map(Files::forget);
    let checkpoint = setup.open()?;
    let load = |checkpoint: &Checkpoint, reading: &mut Reading| {
        let context = prompt.saturating_add(*generate);
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
    let ids = random_ids(*prompt, checkpoint.shape.vocabulary);
    let measured = measure(&mut runner, &ids, arguments).map_err(|error| bad_run(&error))?;
    // Before the buffer of the next measurement counts as ours.
    let resident = Resident::read();
    let threads = match setup.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let model_bytes = files.and_then(|files| files.bytes()).ok();
    let loading = Loading::new(&watched, disk, cached.as_ref(), runner.memory());
    let setting = report::Setting {
        version: env!("CARGO_PKG_VERSION"),
        model: checkpoint.name.clone(),
        model_bytes,
        backend: runner.backend(),
        kv: setup.kv_type().name(),
        threads,
        prompt: *prompt,
        generate: *generate,
        mode: modes[0].name(),
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
    let report = Report::new(measured, ceiling, setting, loading, resident);
    if *json {
        output::print_json(&report)?;
    } else {
        output::print(&report.to_string())?;
    }
    Ok(Exit::Ok)
}

/// Turns in each mode, then with a look inside: that costs a little, so it comes after all that is only timed.
fn measure(
    runner: &mut Runner,
    prompt: &[u32],
    Arguments {
        generate,
        reps,
        modes,
        rows,
        ..
    }: &Arguments,
) -> Result<Measured, RunError> {
    let mut speeds = Vec::new();
    let mut step_nodes = None;
    let mut anatomies = Vec::new();
    for &mode in modes {
        runner.set_graph_mode(mode);
        let turns: Vec<Turn> = (0..*reps)
            .map(|_| Turn::run(runner, prompt, *generate))
            .collect::<Result<_, _>>()?;
        if anatomies.is_empty() {
            speeds = turns.iter().map(|turn| speed(turn, prompt.len())).collect();
            step_nodes = Some(runner.graph().nodes()).filter(|nodes| *nodes > 0);
        }
        anatomies.push(Anatomy::new(mode, &turns, runner));
    }
    let rows: Vec<usize> = rows.iter().copied().map(usize::from).collect();
    runner.set_graph_mode(modes[0]);
    let together = together::measure(runner, &rows, prompt, *generate)?;
    let mut kinds = Vec::new();
    // A CPU has no clock for its operations.
    if !matches!(runner.executor(), Executor::Cpu(_)) {
        for (&mode, row) in modes.iter().zip(&mut anatomies) {
            runner.set_graph_mode(mode);
            row.look_inside(runner, prompt, *generate)?;
        }
        runner.set_graph_mode(modes[0]);
        kinds = kinds::measure(runner, prompt, *generate)?;
    }
    Ok(Measured {
        speeds,
        step_nodes,
        modes: anatomies,
        together,
        kinds,
    })
}

#[allow(clippy::cast_precision_loss)] // counts of tokens and of bytes moved, shown to three digits
fn speed(turn: &Turn, prompt: usize) -> Speed {
    let decode = turn.decode.as_secs_f64();
    Speed {
        prefill: prompt as f64 / turn.prompt.as_secs_f64(),
        decode: turn.generated() as f64 / decode,
        moved: turn.bytes as f64 / decode / 1e9,
    }
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

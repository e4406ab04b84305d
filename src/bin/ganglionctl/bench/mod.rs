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
mod steps;

use std::fs;
use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Parser, value_parser};
use ganglion::engine::runner::{RunError, Runner};
use ganglion::graph::Mode;
use ganglion::model::Checkpoint;
use ganglion::sampler::Parameters;

use crate::failure::{Exit, OrFail as _, Outcome};
use crate::offline::Setup;
use crate::view;
use ceiling::Ceiling;
use context::Context;
use disk::Files;
use loading::{Load, Loading};
use memory::Resident;
use report::Report;
use steps::Workload;

/// The report as people read it, and what stands above its picture.
const REPORT: &str = concat!(include_str!("title.txt"), include_str!("report.txt"));
const TITLE: &str = concat!(include_str!("title.txt"), "{{ title() }}");

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    #[command(flatten)]
    setup: Setup,
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
    /// Also draw it, as SVG: the time of each kind of operation, the speeds against the prompt's length
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Arguments {
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
}

/// Tokens, or repetitions: more than any model has positions is a typing error.
fn some() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=1 << 20)
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let Arguments { setup, modes, .. } = arguments;
    let files = Files::of(&setup.model).ok();
    // Where they cannot be forgotten, what is opened next says why.
    let _ = files.as_ref().map(Files::forget);
    let checkpoint = setup.open()?;
    let longest = arguments.prompts.iter().copied().max().unwrap_or(1);
    let context = longest.saturating_add(arguments.generate);
    let conversations = arguments
        .rows
        .iter()
        .max()
        .map_or(1, |rows| usize::from(*rows));
    let load = |checkpoint: &Checkpoint| {
        Load::time(|progress| setup.load(checkpoint, (context, conversations), modes[0], progress))
    };
    let ((runner, loaded), watched) = loading::watch(setup.may_use_gpu(), || load(&checkpoint));
    let mut runner = runner?;
    let disk = files.as_ref().and_then(Files::disk);
    let mut cached = None;
    if let Some(files) = &files {
        // Two models have no room everywhere.
        drop(runner);
        let remembered = files.remember();
        // It is opened anew: whether the page cache has a file is looked at only once.
        let (again, load) = load(&setup.open()?);
        runner = again?;
        cached = Some(load).filter(|_| remembered);
    }
    // The ids are the same in every run and on every machine.
    let mut random = fastrand::Rng::with_seed(0x9e37_79b9_7f4a_7c15);
    let vocabulary = u32::try_from(checkpoint.shape.vocabulary).unwrap_or(u32::MAX);
    let ids: Vec<_> = (0..longest).map(|_| random.u32(..vocabulary)).collect();
    let mut contexts = measure(&mut runner, &ids, arguments).or_exit(Exit::Data)?;
    // It is read before the buffer of the next measurement counts as ours.
    let resident_bytes = Resident::read();
    let threads = match setup.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let loading = Loading::new((loaded, &watched), disk, cached, runner.memory());
    let multiprocessors = runner.executor().multiprocessors();
    let backend = runner.backend();
    let ceiling = Ceiling::measure(runner, threads, setup.sms);
    if let Some(ceiling) = ceiling {
        let contexts = contexts.iter_mut();
        contexts.for_each(|context| context.hold_against(ceiling));
    }
    let speed = |copies| {
        let ceiling = ceiling.filter(|ceiling| ceiling.copies == copies);
        ceiling.map(|ceiling| ceiling.bytes_per_second / 1e9)
    };
    let report = Report {
        version: env!("CARGO_PKG_VERSION"),
        model: checkpoint.name.clone(),
        model_bytes: files.map(|files| files.bytes()),
        backend,
        kv: setup.kv.name(),
        threads,
        multiprocessors: multiprocessors.map(|(some, _)| some),
        of_multiprocessors: multiprocessors.map(|(_, all)| all),
        generate: arguments.generate,
        mode: modes[0].name(),
        first: contexts.first().cloned(),
        contexts,
        loading,
        read_gigabytes_per_second: speed(false),
        copy_gigabytes_per_second: speed(true),
        resident_bytes,
    };
    view::print(arguments.json, REPORT, &report)?;
    let Some(file) = &arguments.plot else {
        return Ok(());
    };
    let what = format!("--plot {}", file.display());
    let title = view::text(TITLE, &report)?;
    let svg = plot::svg(&report, title.trim()).or_fail(Exit::Failed, &what)?;
    fs::write(file, svg).or_fail(Exit::Failed, &what)
}

/// Measures after a prompt of each length, which is the first so many `ids`.
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

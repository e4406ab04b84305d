//! `ganglionctl bench`: the command line and the output of the benchmark. Not here: measurements (`ganglion::bench`).

mod plot;

use std::fs;
use std::path::PathBuf;

use clap::Parser;
use ganglion::bench::{BenchError, Plan};

use crate::failure::{Exit, Failure, OrFail as _, Outcome, failure};
use crate::offline::{self, Setup};
use crate::view;

/// The report for people, and the title of the plot.
const REPORT: &str = concat!(include_str!("title.txt"), include_str!("report.txt"));
const TITLE: &str = concat!(include_str!("title.txt"), "{{ title() }}");

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    #[command(flatten)]
    setup: Setup,
    #[command(flatten)]
    plan: Plan,
    /// Also draw a plot, as SVG: the time of each kind of operation, and the speeds against the prompt's length
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let Arguments { setup, plan, .. } = arguments;
    let report = plan.run(&setup.model, &setup.settings()?).map_err(failed)?;
    view::print(arguments.json, REPORT, &report)?;
    let Some(file) = &arguments.plot else {
        return Ok(());
    };
    let what = format!("--plot {}", file.display());
    let title = view::text(TITLE, &report)?;
    let svg = plot::svg(&report, title.trim()).or_fail(Exit::Failed, &what)?;
    fs::write(file, svg).or_fail(Exit::Failed, &what)
}

fn failed(error: BenchError) -> Failure {
    match error {
        BenchError::Model(error) => offline::bad_model(error),
        BenchError::Load(error) => offline::not_loaded(error),
        BenchError::Run(error) => failure!(Data: "{error}"),
    }
}

//! The command line of `verify`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use ganglion::config;

use super::part::Part;
use crate::choice::choice;

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// Also keep answers running for this time, and watch heat, clocks and speed
    #[arg(long, value_name = "MINUTES", num_args = 0..=1, require_equals = true, default_missing_value = "30", value_parser = minutes)]
    pub(super) long: Option<Duration>,
    /// The file to write: results, figures, and the text that is printed, without prompts and answers
    #[arg(long, value_name = "FILE", default_value = "ganglion-verify.json")]
    pub(super) output: PathBuf,
    /// Show FILE next to this run; with two files nothing runs, and they are shown next to each other
    #[arg(long, value_name = "FILE", num_args = 1..=2)]
    pub(super) compare: Vec<PathBuf>,
    /// The model to run, instead of the configured one: a .gguf file, or a directory with safetensors
    #[arg(long, value_name = "M")]
    pub(super) model: Option<PathBuf>,
    /// The daemon's configuration file
    #[arg(long, value_name = "FILE", default_value = config::DEFAULT_FILE)]
    pub(super) config: PathBuf,
    /// Run on a partition of at least this many of the GPU's multiprocessors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) sms: Option<u32>,
    /// Read files below DIR (dev, etc, proc, sys, ...) instead of this machine's, and run nothing
    #[arg(long, value_name = "DIR")]
    pub(super) root: Option<PathBuf>,
    /// Run one of N cases of the self-test: all of them take many minutes
    #[arg(long, value_name = "N", default_value = "12", hide = true)]
    pub(super) every: NonZeroUsize,
    /// Run this part in this process, and write its results as lines
    #[arg(long, hide = true, value_parser = choice::<Part>())]
    pub(super) part: Option<Part>,
}

fn minutes(text: &str) -> Result<Duration, String> {
    const MOST: f64 = 24.0 * 60.0;
    match text.parse::<f64>() {
        Ok(minutes) if minutes > 0.0 && minutes <= MOST => {
            Ok(Duration::from_secs_f64(60.0 * minutes))
        }
        _ => Err(format!("it must be a number above 0, at most {MOST}")),
    }
}

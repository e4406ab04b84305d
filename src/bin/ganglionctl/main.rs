//! `ganglionctl`: asks the daemon over D-Bus, and measures models without it.
//!
//! `ask`, `chat` and `status` are plain D-Bus clients and know nothing of models; `tokenize`, `score`
//! and `bench` open a model themselves and know nothing of D-Bus.

mod arguments;
mod completions;
mod failure;
mod output;

use std::process::ExitCode;

use clap::Parser as _;

use arguments::{Cli, Verb};
use failure::{Exit, Failure};

fn main() -> ExitCode {
    let Cli { verb, .. } = Cli::parse();
    match run(verb) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            if let Some(message) = failure.message() {
                eprintln!("ganglionctl: {message}");
            }
            failure.exit().into()
        }
    }
}

fn run(verb: Verb) -> Result<Exit, Failure> {
    match verb {
        Verb::Completions(arguments) => completions::run(&arguments),
    }
}

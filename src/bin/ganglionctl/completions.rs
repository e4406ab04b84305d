//! `ganglionctl completions`: what a shell needs to complete the command line.

use clap::{CommandFactory as _, Parser};

use crate::arguments::Cli;
use crate::failure::{Exit, Failure};
use crate::output;

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// The shell to write them for
    shell: Shell,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let shell = match arguments.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    // Not straight to standard output: the generator panics when its reader leaves.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "ganglionctl", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Ok)
}

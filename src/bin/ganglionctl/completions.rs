//! `ganglionctl completions`: what a shell needs to complete the command line.

use clap::{Command, Parser};
use clap_complete::Shell;

use crate::failure::Outcome;
use crate::output;

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// The shell to write them for
    shell: Shell,
}

/// `command` is the whole command line.
pub(crate) fn run(arguments: &Arguments, mut command: Command) -> Outcome {
    // It does not go straight to standard output: the generator panics when its reader leaves.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "ganglionctl", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

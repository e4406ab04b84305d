//! `ganglionctl completions`: completion scripts for shells.

use clap::{Command, Parser};
use clap_complete::Shell;

use crate::failure::Outcome;
use crate::output;

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// The shell to write them for
    shell: Shell,
}

/// Writes the script; `command` is the whole command line.
pub(crate) fn run(arguments: &Arguments, mut command: Command) -> Outcome {
    // The generator panics if its reader leaves, so it writes to memory first.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "ganglionctl", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

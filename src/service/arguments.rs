//! The command line of `gangliond`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Parser;

use crate::bus::Address;
use crate::engine::sim::Script;

/// The exit codes, for `--help` and the manual.
pub const EXIT_CODES: &str = "\
Exit status:
   0  stopped by SIGTERM or SIGINT
  64  the arguments are wrong
  69  the bus cannot be reached at the start, or another daemon has the name
  70  the engine failed, or the daemon met a bug of its own
  71  the system refused a thread, a signal handler or the like
  75  the GPU cannot be opened yet, as its driver may come after the daemon, or there are no threads left: start it again
  78  the configuration or the model cannot be used; starting again would not help";

/// Keeps one language model warm and answers over D-Bus.
#[derive(Debug, Parser)]
#[command(name = "gangliond", version, about, after_help = EXIT_CODES)]
pub struct Arguments {
    /// The configuration file; FILE.d/*.toml come after it [default: /etc/ganglion/gangliond.toml]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Check the configuration file, its drop-ins and the model's files (without the weights), report errors, and start
    /// nothing
    #[arg(long)]
    pub check_config: bool,

    /// Compare each operation on this machine's GPU and CPU with the CPU on one thread, and start nothing; with N only
    /// every Nth case, which takes less time
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    pub self_test: Option<NonZeroUsize>,

    /// The bus to answer on: system, session, or a D-Bus address
    #[arg(long, value_name = "BUS", default_value = "system")]
    pub bus: Address,

    /// Also answer over HTTP on a UNIX socket that is made at PATH; a system's daemon gets its sockets from systemd
    #[arg(long, value_name = "PATH")]
    pub http: Option<PathBuf>,

    /// Read the files of the board (sys, etc, var) below DIR instead of this machine's, for tests
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    pub board: PathBuf,

    /// Run a script instead of a model, for tests: key=value, separated by commas
    #[arg(long, value_name = "SCRIPT", num_args = 0..=1, default_missing_value = "")]
    pub sim: Option<Script>,
}

//! gangliond: arguments, then the configuration, then the service.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use ganglion::bus::Address;
use ganglion::config;
use ganglion::engine::sim::Script;
use ganglion::journal;
use ganglion::service::{self, Failure, Origin, World};

const EXIT_CODES: &str = "\
Exit status:
   0  stopped by SIGTERM or SIGINT
  64  the arguments are wrong
  69  the bus cannot be reached or was lost, or another daemon has the name
  70  the engine failed, or the daemon met a bug of its own
  71  the system refused a thread, a signal handler or the like
  78  the configuration or the model cannot be used; starting again would not help";

/// EX_USAGE of sysexits(3).
const WRONG_ARGUMENTS: u8 = 64;

/// Keeps one language model warm and answers over D-Bus.
#[derive(Debug, Parser)]
#[command(name = "gangliond", version, about, after_help = EXIT_CODES)]
struct Arguments {
    /// The configuration file; FILE.d/*.toml come after it [default: /etc/ganglion/gangliond.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Check the configuration file and its drop-ins, say what is wrong with it, and start nothing
    #[arg(long)]
    check_config: bool,

    /// The bus to answer on: system, session, or a D-Bus address
    #[arg(long, value_name = "BUS", default_value = "system")]
    bus: Address,

    /// Run a script instead of a model, for tests: key=value, separated by commas
    #[arg(long, value_name = "SCRIPT", num_args = 0..=1, default_missing_value = "")]
    sim: Option<Script>,
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(asked) => {
            // Help and version are no errors; if nobody can read them, nothing helps.
            let _ = asked.print();
            return if asked.use_stderr() {
                ExitCode::from(WRONG_ARGUMENTS)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report();
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(arguments: Arguments) -> Result<(), Failure> {
    let journal = journal::init(config::Level::default()).map_err(std::io::Error::other)?;
    let origin = Origin {
        file: arguments.config,
        script: arguments.sim,
    };
    if arguments.check_config {
        origin.check()?;
        println!("{}: ok", origin.file().display());
        return Ok(());
    }
    service::start(World {
        bus: arguments.bus,
        origin,
        journal,
    })
}

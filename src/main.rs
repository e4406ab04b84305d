//! gangliond: reads the arguments and starts the service.

use std::process::ExitCode;

use clap::Parser as _;
use ganglion::check::self_test;
use ganglion::confined;
use ganglion::guide;
use ganglion::http::listen::Inherited;
use ganglion::journal;
use ganglion::model::chat;
use ganglion::service::{self, Arguments, Failure, Origin, Parts};
use tikv_jemalloc_ctl::{Access as _, AsName as _};
use tikv_jemallocator::Jemalloc;

/// The allocator. Unlike glibc's, it returns the memory of a replaced model or a large prompt to the system within
/// seconds.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// The milliseconds after which jemalloc returns freed pages. With its default of ten seconds, repeated reloads would need
/// room for three models instead of two.
const DECAY_MS: isize = 1000;
/// The settings of new arenas, and of the arena that exists when main starts.
const DECAY: [&str; 2] = ["arenas.dirty_decay_ms\0", "arena.0.dirty_decay_ms\0"];

/// EX_USAGE of sysexits(3).
const WRONG_ARGUMENTS: u8 = 64;
/// EX_SOFTWARE.
const WRONG_RESULTS: u8 = 70;

fn main() -> ExitCode {
    for setting in DECAY {
        let set = setting.name().write(DECAY_MS);
        set.expect("jemalloc has this setting");
    }
    if let Some(code) = confined::run_if_asked(&[chat::TASK, guide::TASK]) {
        return code;
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(asked) => {
            // Help and version are not errors. A failure to print them has no remedy.
            let _ = asked.print();
            return if asked.use_stderr() {
                ExitCode::from(WRONG_ARGUMENTS)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    if let Some(every) = arguments.self_test {
        return match self_test::run(every, &mut std::io::stdout().lock()) {
            Ok(true) => ExitCode::SUCCESS,
            _ => ExitCode::from(WRONG_RESULTS),
        };
    }
    let code = match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report();
            ExitCode::from(failure.exit_code())
        }
    };
    journal::flush();
    code
}

fn run(arguments: Arguments) -> Result<(), Failure> {
    // Before any thread starts.
    let inherited = Inherited::take();
    let journal = journal::init(journal::Level::default())?;
    // Without CUDA there is no unsafe code.
    #[cfg(feature = "cuda")]
    ganglion::device::report_crashes(journal::stderr_is_journal()).map_err(std::io::Error::from)?;
    let origin = Origin {
        file: arguments.config,
        script: arguments.sim,
    };
    if arguments.check_config {
        origin.check_model()?;
        println!("{}: ok", origin.file().display());
        return Ok(());
    }
    service::start(Parts {
        bus: arguments.bus,
        inherited,
        http: arguments.http,
        board: arguments.board,
        origin,
        journal,
    })
}

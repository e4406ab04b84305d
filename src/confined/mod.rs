//! Child processes that run foreign programs: chat templates, and grammars of answers. Each is this program again,
//! started with an argument that names its task. The operating system bounds its memory and time, so it can only end
//! itself.
//! Not here: the tasks and their messages.

use std::ffi::{CStr, OsStr};
use std::io::{self, ErrorKind};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, fs};

use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::close;

/// Work that this program does in a process of its own.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// The process's argument, which is not an option of the command line.
    pub(crate) argument: &'static str,
    pub(crate) run: fn() -> io::Result<()>,
}

static POSSIBLE: AtomicBool = AtomicBool::new(false);

/// Runs a task if this process was started for it. A program's `main` calls this first.
#[must_use]
pub fn run_if_asked(tasks: &[Task]) -> Option<ExitCode> {
    POSSIBLE.store(true, Ordering::Relaxed);
    let argument = env::args_os().nth(1)?;
    let task = tasks
        .iter()
        .find(|task| argument == OsStr::new(task.argument))?;
    // The daemon notices the end of the process, whatever the error.
    Some(match (task.run)() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

/// Returns a command that starts `task`. The process inherits nothing from the daemon except the time zone, and its standard
/// error is closed, because a message there could quote a prompt.
pub(crate) fn command(task: Task) -> io::Result<Command> {
    let mut command = Command::new(program()?);
    command
        .arg0("gangliond")
        .arg(task.argument)
        .env_clear()
        .envs(env::var_os("TZ").map(|zone| ("TZ", zone)))
        .stderr(Stdio::null());
    Ok(command)
}

/// Returns the program that runs tasks: the running program if its `main` calls `run_if_asked`, otherwise the gangliond next to
/// it, which serves tests and examples. `/proc/self/exe` keeps the version the same after an upgrade has replaced the file.
fn program() -> io::Result<PathBuf> {
    if POSSIBLE.load(Ordering::Relaxed) {
        return Ok("/proc/self/exe".into());
    }
    let this = env::current_exe()?;
    let folders = this.ancestors().skip(1).take(2);
    folders
        .map(|folder| folder.join("gangliond"))
        .find(|program| program.is_file())
        .ok_or_else(|| io::Error::new(ErrorKind::NotFound, "there is no gangliond next to it"))
}

/// Prepares the process of a task: its name, no core dump and no debugger (it holds prompts), no stop by the daemon's signals
/// (the daemon may still have answers to finish), and no descriptor except the standard ones (a driver may have opened some).
pub(crate) fn confine(name: &CStr) -> io::Result<()> {
    prctl::set_dumpable(false)?;
    prctl::set_name(name)?;
    let signals = [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGQUIT,
    ];
    signals.into_iter().collect::<SigSet>().thread_block()?;
    let open: Vec<i32> = fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // The folder's own descriptor is closed already.
        let _ = close(descriptor);
    }
    Ok(())
}

/// The bound that ended a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Time,
    /// Memory or stack.
    Memory,
}

/// Returns the bound that a process's exit status shows; `None` for another end.
pub(crate) fn bound(status: ExitStatus) -> Option<Bound> {
    let signal = Signal::try_from(status.signal()?).ok()?;
    match signal {
        Signal::SIGALRM | Signal::SIGXCPU => Some(Bound::Time),
        Signal::SIGABRT | Signal::SIGSEGV | Signal::SIGBUS | Signal::SIGKILL => Some(Bound::Memory),
        _ => None,
    }
}

//! `ganglionctl hold`: keeps requests off the device while a command runs.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use clap::Parser;
use ganglion::bus::Error;
use ganglion::bus::proxy::ManagerProxy;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpgrp, tcgetpgrp};
use tokio::io::Interest;
use tokio::net::unix::pipe::Sender;
use tokio::process::{Child, Command};
use tokio::signal::unix::{self, SignalKind, signal};
use zbus::{Connection, Variant};

use crate::client;
use crate::failure::{Exit, Failure, OrFail as _, Outcome, failure};
use crate::output;

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// Hold requests of every priority: for root and the group that limits.realtime_group names
    #[arg(long)]
    all: bool,
    /// The reason, which every member of group ganglion can read
    #[arg(long, value_name = "R")]
    reason: String,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Exit codes of shells for a command that is missing, or cannot be run.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;
/// A shell's exit code for a command that a signal has ended is this plus the signal's number.
const SIGNALLED: i32 = 128;

pub(crate) async fn run(bus: Option<String>, arguments: &Arguments) -> Outcome<ExitCode> {
    // A signal never ends this process while the command runs.
    let mut signals = Signals::new()?;
    let taking = async {
        let connection = client::connect(bus).await?;
        let hold = Hold::take(&connection, arguments).await?;
        // The hold ends with its connection.
        Ok::<_, Failure>((connection, hold))
    };
    let (_connection, hold) = tokio::select! {
        taken = taking => taken?,
        _ = signals.next() => return Err(Failure::quiet(Exit::Interrupted)),
    };
    let Some((program, rest)) = arguments.command.split_first() else {
        return Err(failure!(Usage: "there is no command: give one after --"));
    };
    let name = program.to_string_lossy();
    let mut child = match Command::new(program).args(rest).spawn() {
        Ok(child) => child,
        Err(error) => {
            output::note(&format!("ganglionctl: {name}: {error}"));
            let code = match error.kind() {
                ErrorKind::NotFound => NOT_FOUND,
                _ => NOT_EXECUTABLE,
            };
            return Ok(code.into());
        }
    };
    let mut is_held = true;
    loop {
        tokio::select! {
            ended = child.wait() => return Ok(code(ended.or_fail(Exit::Failed, &name)?)),
            signal = signals.next() => forward(signal, &child),
            () = hold.ended(), if is_held => {
                is_held = false;
                let why = hold.why();
                output::note(&format!("ganglionctl: the hold has ended: {why}; {name} continues without it"));
            }
        }
    }
}

/// Returns a shell's exit code for a command that ended like this.
fn code(ended: ExitStatus) -> ExitCode {
    let signalled = ended.signal().map(|signal| SIGNALLED + signal);
    let code = ended.code().or(signalled);
    let code = code.and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Sends a signal to the command, unless the terminal has sent it to both.
fn forward(signal: Signal, child: &Child) {
    let is_typed = matches!(signal, Signal::SIGINT | Signal::SIGQUIT) && is_in_foreground();
    let process = child.id().and_then(|id| i32::try_from(id).ok());
    if let Some(process) = process.filter(|_| !is_typed) {
        // The command may have ended by itself.
        let _ = kill(Pid::from_raw(process), signal);
    }
}

/// Whether the terminal sends its signals to this process and the command.
fn is_in_foreground() -> bool {
    let terminal = File::open("/dev/tty").ok();
    terminal.and_then(|terminal| tcgetpgrp(terminal).ok()) == Some(getpgrp())
}

/// The signals that are forwarded to the command.
struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// Listens to each signal that this process was not started to ignore. The command ignores the others as well.
    fn new() -> Outcome<Self> {
        let ignored = ignored();
        let all = [
            Signal::SIGINT,
            Signal::SIGQUIT,
            Signal::SIGTERM,
            Signal::SIGHUP,
        ];
        let heard = all
            .into_iter()
            .filter(|one| ignored >> (*one as u32 - 1) & 1 == 0);
        let heard = heard.map(|one| {
            let listens = signal(SignalKind::from_raw(one as i32));
            Ok((one, listens.or_fail(Exit::Failed, one.as_str())?))
        });
        heard.collect::<Outcome<_>>().map(Self)
    }

    /// Returns the next signal.
    async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            for (one, listens) in &mut self.0 {
                if listens.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(*one);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

/// Returns the set of signals that this process ignores, one bit each; empty if the kernel does not say.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .unwrap_or_default()
}

/// A hold of this process.
struct Hold {
    /// Closing it ends the hold.
    pipe: Sender,
    began: Instant,
    /// The daemon's limit of the hold's duration, if it reports one.
    longest: Option<Duration>,
}

impl Hold {
    async fn take(connection: &Connection, arguments: &Arguments) -> Outcome<Self> {
        let manager = ManagerProxy::new(connection).await?;
        let reason = &arguments.reason;
        let taken = if arguments.all {
            manager.hold_all(reason).await
        } else {
            manager.hold(reason).await
        };
        let taken = taken.map_err(|error| match error {
            // The daemon refuses the descriptor only for this reason.
            Error::NotSupported(why) => failure!(Forbidden: "{why}"),
            error => error.into(),
        });
        let pipe = Sender::from_owned_fd(taken?.into()).or_fail(Exit::Unavailable, "the hold")?;
        let began = Instant::now();
        let longest = longest(&manager, connection).await;
        Ok(Self {
            pipe,
            began,
            longest,
        })
    }

    /// Waits until the daemon has ended the hold.
    async fn ended(&self) {
        while let Ok(ready) = self.pipe.ready(Interest::ERROR).await {
            if ready.is_error() || ready.is_write_closed() {
                return;
            }
        }
    }

    /// Returns the reason for its end.
    fn why(&self) -> String {
        match self.longest {
            Some(longest) if self.began.elapsed() >= longest => {
                let seconds = longest.as_secs_f64();
                format!(
                    "it has lasted {seconds:.1} s, the longest time that hold.max_seconds allows"
                )
            }
            _ => "gangliond has stopped, or has lost its bus".to_owned(),
        }
    }
}

/// Returns the longest time that this connection's hold can still last.
async fn longest(manager: &ManagerProxy<'_>, connection: &Connection) -> Option<Duration> {
    let name = connection.unique_name()?.as_str();
    let holds = manager.holds().await.ok()?;
    let own = |key: &Variant<'_>| matches!(key, Variant::Str(owner) if owner.as_str() == name);
    let own = holds
        .iter()
        .find(|hold| hold.get("connection").is_some_and(|owner| own(owner)))?;
    match **own.get("seconds_left")? {
        Variant::F64(left) => Duration::try_from_secs_f64(left).ok(),
        _ => None,
    }
}

//! The processes that compile grammars and compute masks, from within: a keeper receives a vocabulary and forks, and
//! each fork receives one grammar and serves its answers. The kernel may end any of them at any moment.
//! Not here: the daemon's side (`keeper`, `matching`).

mod answer;
mod bounds;
mod compile;
mod counting;
mod error_place;
mod guesses;
mod lexer_cache;
mod numbers;
mod parsed;
mod replayed;
mod serving;
mod vocabulary;

use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::{fs, process};

use ::fork::{Fork, fork};
use nix::errno::Errno;
use nix::libc;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, close, getpid};

use super::frame::{Channel, FromKeeper, FromProcess, Masks, Received, ToKeeper, ToProcess};
use super::limits::{ANSWERING, COMPILING};
use answer::Ready;
use bounds::{Clock, Memory};
use compile::Shared;
use serving::Process;
use vocabulary::{Daemon, Words};

pub use replayed::{Known, replay};

/// The data of all processes of a vocabulary. Forks share its memory, and never change it.
struct Vocabulary {
    words: Arc<Words>,
    /// `None` if no token ends an answer.
    shared: Option<Shared>,
}

/// Serves the daemon at standard input: the keeper of one vocabulary.
pub(super) fn run() -> io::Result<()> {
    // If memory runs out on the machine, the kernel ends these processes before the daemon. A sandbox may forbid this
    // setting.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    crate::confined::confine(c"guides")?;
    // Processes that a grammar's process forks become children of the keeper, which reports how they end.
    prctl::set_child_subreaper(true)?;
    let daemon = Channel::new(io::stdin().as_fd().try_clone_to_owned()?);
    close(0)?;
    let Some(Received {
        message: ToKeeper::Vocabulary(table),
        bytes,
    }) = daemon.receive()?
    else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let words = Arc::new(Words::new(table, bytes));
    let vocabulary = Vocabulary {
        shared: Shared::new(&words),
        words,
    };
    daemon.send(&FromKeeper::Ready(vocabulary.shared.is_some()))?;
    loop {
        let received = match daemon.receive() {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            received => received?,
        };
        let Some(Received { message, .. }) = received else {
            continue;
        };
        match message {
            ToKeeper::Fork => {
                let (socket, masks) = daemon.descriptors()?;
                // The daemon sees a failed fork as a closed socket.
                if let Ok(Fork::Child) = fork() {
                    drop(daemon);
                    return serve(&vocabulary, Channel::new(socket), Masks::of(masks), None);
                }
            }
            ToKeeper::End(process) => daemon.send(&FromKeeper::Ended(end(process)))?,
            ToKeeper::Vocabulary(_) => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Kills a process, and returns its exit status; `None` if it is not a child. A child is waited for only when the
/// daemon asks, so its id is not reused before.
fn end(process: i32) -> Option<i32> {
    let process = Pid::from_raw(process);
    // A process that another process has started becomes a child only when that one exits.
    for _ in 0..50 {
        // An ended child is waited for first. A signal would not change its status, but could arrive while it exits.
        let status = match waitpid(process, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => {
                let _ = kill(process, Signal::SIGKILL);
                waitpid(process, None)
            }
            status => status,
        };
        match status {
            Ok(WaitStatus::Exited(_, code)) => return Some(code << 8),
            Ok(WaitStatus::Signaled(_, signal, _)) => return Some(signal as libc::c_int),
            Err(Errno::ECHILD) => std::thread::sleep(std::time::Duration::from_millis(1)),
            _ => return None,
        }
    }
    None
}

/// Serves the daemon behind a socket: the process of one grammar, which another process may have compiled.
fn serve(
    vocabulary: &Vocabulary,
    channel: Channel,
    masks: Masks,
    mut ready: Option<Ready>,
) -> io::Result<()> {
    prctl::set_name(c"guide")?;
    channel.send(&FromProcess::Hello(getpid().as_raw()))?;
    let daemon = Daemon::new(channel);
    vocabulary.words.ask(daemon.clone());
    let mut process = Process {
        daemon,
        masks,
        clock: Clock::new()?,
        memory: Memory::new()?,
    };
    let Some(shared) = &vocabulary.shared else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    if ready.is_some() {
        process.memory.bound(ANSWERING)?;
    }
    loop {
        let message = match process.daemon.receive() {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            message => message?,
        };
        match message {
            ToProcess::Compile {
                grammar,
                limits,
                idle,
            } => {
                ready = answer::compile(shared, &mut process, grammar, limits, idle)?;
            }
            ToProcess::Find(schemas, lenient, limits) => {
                process.memory.bound(COMPILING)?;
                let found = process
                    .clock
                    .bound(limits.compile, || shared.find(schemas, lenient, limits))?;
                process.send(&FromProcess::Found(found))?;
            }
            ToProcess::Fit(tokens) => {
                if let Some(ready) = &ready {
                    let (allowed, ends) = ready.fit(&mut process, &tokens)?;
                    process.send(&FromProcess::Fits(allowed, ends))?;
                }
            }
            ToProcess::Begin { question, forced } => {
                if let Some(ready) = &mut ready {
                    ready.begin(shared, &mut process, question, forced)?;
                }
            }
            ToProcess::Take { question, tokens } => {
                if let Some(ready) = &mut ready {
                    ready.take(&mut process, question, &tokens)?;
                }
            }
            ToProcess::Guess {
                number,
                after,
                tokens,
            } => {
                if let Some(ready) = &mut ready {
                    ready.guess(shared, &mut process, (number, after), &tokens)?;
                }
            }
            ToProcess::End => {
                if let Some(ready) = &mut ready {
                    ready.end(&process)?;
                }
            }
            ToProcess::Fork => {
                let (socket, masks) = process.daemon.channel.descriptors()?;
                if forks_away() {
                    // A fork must not delete the timer of its parent.
                    std::mem::forget(process.clock);
                    drop(process.daemon);
                    if let Some(ready) = &mut ready {
                        ready.forget();
                    }
                    return serve(vocabulary, Channel::new(socket), Masks::of(masks), ready);
                }
            }
            // The reply to a question that was given up.
            ToProcess::Encoded(_) => {}
        }
    }
}

/// Forks a process that becomes a child of the keeper; returns true in that process. The daemon sees a failed fork as a
/// closed socket.
fn forks_away() -> bool {
    match fork() {
        Ok(Fork::Child) => match fork() {
            Ok(Fork::Child) => true,
            // Once its parent exits, the new process is the keeper's child.
            _ => process::exit(0),
        },
        Ok(Fork::Parent(between)) => {
            let _ = waitpid(Pid::from_raw(between), None);
            false
        }
        Err(_) => false,
    }
}

//! The process that runs a model's template, as the daemon sees it: started when it is needed, asked by a pipe, and
//! ended with the model.

use std::env;
use std::io::{self, ErrorKind};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};

use nix::sys::signal::Signal;

use super::frame::{self, Kind};
use super::serve::{self, LONGEST_TEXT, MEMORY, SECONDS};
use crate::model::language::LanguageError;

#[derive(Debug)]
pub(super) struct Renderer {
    /// `None` after it had to be stopped.
    process: Mutex<Option<Process>>,
}

impl Renderer {
    /// Compiles a template.
    pub(super) fn start(source: &str) -> Result<Self, LanguageError> {
        Ok(Self {
            process: Mutex::new(Some(Process::start(source)?)),
        })
    }

    /// Renders it with `variables`, a JSON object. One conversation at a time: a template takes milliseconds.
    pub(super) fn render(&self, source: &str, variables: &[u8]) -> Result<String, LanguageError> {
        let mut place = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let mut process = match place.take().and_then(Process::if_running) {
            Some(process) => process,
            None => Process::start(source)?,
        };
        let rendered = process.ask(Kind::Variables, variables);
        if !matches!(rendered, Err(LanguageError::Stopped(_))) {
            *place = Some(process);
        }
        rendered
    }
}

#[derive(Debug)]
struct Process {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Process {
    fn start(source: &str) -> Result<Self, LanguageError> {
        let mut process = Self::spawn().map_err(LanguageError::Process)?;
        process.ask(Kind::Source, source.as_bytes())?;
        Ok(process)
    }

    /// It gets nothing of the daemon but the time zone. What it might say on stderr could quote a prompt.
    fn spawn() -> io::Result<Self> {
        let mut command = Command::new(program()?);
        command
            .arg0("gangliond")
            .arg(serve::ARGUMENT)
            .env_clear()
            .envs(env::var_os("TZ").map(|zone| ("TZ", zone)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn()?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => Ok(Self {
                child,
                input,
                output,
            }),
            _ => Err(ErrorKind::BrokenPipe.into()),
        }
    }

    /// The system may have ended it, for want of memory.
    fn if_running(mut self) -> Option<Self> {
        matches!(self.child.try_wait(), Ok(None)).then_some(self)
    }

    fn ask(&mut self, kind: Kind, bytes: &[u8]) -> Result<String, LanguageError> {
        // It reads all of a question before it answers, so neither can wait for the other.
        let answer = frame::write(&mut self.input, kind, bytes)
            .and_then(|()| frame::read(&mut self.output, LONGEST_TEXT));
        let (kind, bytes) = match answer {
            Ok(answer) => answer,
            Err(error) => return Err(LanguageError::Stopped(self.end(&error))),
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        match kind {
            Kind::Text => Ok(text),
            Kind::Refused => Err(LanguageError::Refused(text)),
            Kind::Stopped => Err(LanguageError::Stopped(text)),
            Kind::Wrong | Kind::Source | Kind::Variables => Err(LanguageError::Template(text)),
        }
    }

    /// Why it answers no more.
    fn end(&mut self, error: &io::Error) -> String {
        // Its pipes end with it: to kill it as well would hide the reason.
        if !matches!(
            error.kind(),
            ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe
        ) {
            let _ = self.child.kill();
        }
        let ended = self.child.wait();
        ended.map_or_else(|error| error.to_string(), why)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn why(status: ExitStatus) -> String {
    let signal = status.signal().and_then(|it| Signal::try_from(it).ok());
    match signal {
        Some(Signal::SIGALRM) => format!("it ran for more than {SECONDS} s"),
        Some(Signal::SIGABRT | Signal::SIGSEGV | Signal::SIGBUS | Signal::SIGKILL) => format!(
            "it nests too deep, or needs more than {} MiB of memory",
            MEMORY >> 20
        ),
        _ => format!("its process ended with {status}"),
    }
}

/// What runs templates: whatever runs now, if its `main` can; else the gangliond beside it, which is how tests and
/// examples find one. It is named by what runs, not by a path, so that it is of the same version also after the
/// program has been replaced on disk.
fn program() -> io::Result<PathBuf> {
    if serve::is_possible() {
        return Ok("/proc/self/exe".into());
    }
    let this = env::current_exe()?;
    let folders = this.ancestors().skip(1).take(2);
    folders
        .map(|folder| folder.join("gangliond"))
        .find(|program| program.is_file())
        .ok_or_else(|| io::Error::new(ErrorKind::NotFound, "there is no gangliond beside it"))
}

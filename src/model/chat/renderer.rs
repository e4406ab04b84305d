//! The daemon's side of the process that runs a model's template: starts it at its first use, sends it conversations
//! through a pipe, and ends it with the model.

use std::io::{self, ErrorKind};
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio};

use parking_lot::Mutex;

use super::frame::{self, FrameKind};
use super::serve::{LONGEST_TEXT, MEMORY, SECONDS, TASK};
use crate::confined::{self, Bound};
use crate::model::language_error::LanguageError;

#[derive(Debug)]
pub(super) struct Renderer {
    /// `None` after it had to be ended.
    process: Mutex<Option<Process>>,
}

impl Renderer {
    /// Compiles a template.
    pub(super) fn start(source: &str) -> Result<Self, LanguageError> {
        Ok(Self {
            process: Mutex::new(Some(Process::start(source)?)),
        })
    }

    /// Renders it with `variables`, a JSON object. Conversations are rendered one at a time, which takes milliseconds.
    pub(super) fn render(&self, source: &str, variables: &[u8]) -> Result<String, LanguageError> {
        let mut place = self.process.lock();
        let mut process = match place.take().and_then(Process::if_running) {
            Some(process) => process,
            None => Process::start(source)?,
        };
        let rendered = process.ask(FrameKind::Variables, variables);
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
        process.ask(FrameKind::Source, source.as_bytes())?;
        Ok(process)
    }

    fn spawn() -> io::Result<Self> {
        let mut command = confined::command(TASK)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
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

    /// Returns it if it runs: the system may have ended it for lack of memory.
    fn if_running(mut self) -> Option<Self> {
        matches!(self.child.try_wait(), Ok(None)).then_some(self)
    }

    fn ask(&mut self, kind: FrameKind, bytes: &[u8]) -> Result<String, LanguageError> {
        // It reads all of a request before it replies, so neither side can block the other.
        let answer = frame::write(&mut self.input, kind, bytes)
            .and_then(|()| frame::read(&mut self.output, LONGEST_TEXT));
        let (kind, bytes) = match answer {
            Ok(answer) => answer,
            Err(error) => return Err(LanguageError::Stopped(self.end(&error))),
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        match kind {
            FrameKind::Text => Ok(text),
            FrameKind::Refused => Err(LanguageError::Refused(text)),
            FrameKind::Stopped => Err(LanguageError::Stopped(text)),
            FrameKind::Wrong | FrameKind::Source | FrameKind::Variables => {
                Err(LanguageError::Template(text))
            }
        }
    }

    /// Ends it, and returns the reason why it does not reply.
    fn end(&mut self, error: &io::Error) -> String {
        // It ends with its pipes. Killing it would hide the reason.
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
    match confined::bound(status) {
        Some(Bound::Time) => format!("it ran for more than {SECONDS} s"),
        Some(Bound::Memory) => format!(
            "it nests too deep, or needs more than {} MiB of memory",
            MEMORY >> 20
        ),
        None => format!("its process ended with {status}"),
    }
}

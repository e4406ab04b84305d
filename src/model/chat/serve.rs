//! The process that runs one template, from within. The operating system limits its memory, stack and time, and it ends
//! with its pipe. It contains nothing else, so it may crash.

use std::io;

use minijinja::{Error, ErrorKind, Value};
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::alarm;

use super::frame::{self, FrameKind};
use super::jinja::{Program, Raised};
use crate::confined::{self, Task};

/// Renders the conversations of one model.
pub const TASK: Task = Task {
    argument: "--run-chat-template",
    run: serve,
};

/// The time limit for compiling, and for each rendering. Ten thousand messages take a tenth of a second.
pub(super) const SECONDS: u32 = 5;
/// Bytes besides the stack. A rendering needs about six times its conversation.
pub(super) const MEMORY: u64 = 256 << 20;
/// The most bytes of a rendered conversation: several for each token of the longest contexts.
pub(super) const LONGEST_TEXT: usize = 32 << 20;

/// The variable with the guard's mark; no template can spell its name.
pub(super) const MARK: &str = "";

fn serve() -> io::Result<()> {
    confined::confine(c"chat-template")?;
    setrlimit(Resource::RLIMIT_DATA, MEMORY, MEMORY)?;
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut program = None;
    loop {
        let (kind, bytes) = match frame::read(&mut input, usize::MAX) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            frame => frame?,
        };
        // The kernel ends this process when the alarm rings.
        alarm::set(SECONDS);
        let (kind, text) = match kind {
            FrameKind::Source => compile(&mut program, bytes),
            _ => render(program.as_ref(), &bytes),
        }
        .map_or_else(|error| failed(&error), |text| (FrameKind::Text, text));
        alarm::cancel();
        if text.len() > LONGEST_TEXT {
            let why = format!("it wrote more than {} MiB", LONGEST_TEXT >> 20);
            frame::write(&mut output, FrameKind::Stopped, why.as_bytes())?;
        } else {
            frame::write(&mut output, kind, text.as_bytes())?;
        }
    }
}

fn compile(program: &mut Option<Program>, source: Vec<u8>) -> Result<String, Error> {
    let source = String::from_utf8(source)
        .map_err(|error| Error::new(ErrorKind::SyntaxError, error.to_string()))?;
    *program = Some(Program::new(&source)?);
    Ok(String::new())
}

fn render(program: Option<&Program>, variables: &[u8]) -> Result<String, Error> {
    let variables: Value = serde_json::from_slice(variables)
        .map_err(|error| Error::new(ErrorKind::CannotDeserialize, error.to_string()))?;
    let program =
        program.ok_or_else(|| Error::new(ErrorKind::TemplateNotFound, "there is no template"))?;
    let mark = variables.get_attr(MARK).ok();
    let mark = mark.and_then(|mark| mark.as_str()?.chars().next());
    program.render(variables, mark)
}

fn failed(error: &Error) -> (FrameKind, String) {
    let raised =
        std::error::Error::source(error).and_then(|source| source.downcast_ref::<Raised>());
    match raised {
        Some(Raised(message)) => (FrameKind::Refused, message.clone()),
        None if error.kind() == ErrorKind::OutOfFuel => {
            (FrameKind::Stopped, "it took too many steps".into())
        }
        None => (FrameKind::Wrong, error.to_string()),
    }
}

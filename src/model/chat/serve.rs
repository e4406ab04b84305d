//! The process that runs one template, from within: bounded by the operating system in memory, stack and time, and
//! ended by its pipe's end. It may crash: nothing else is in it.

use std::io;

use minijinja::{Environment, ErrorKind, Value};
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::alarm;

use super::environment::{self, Raised};
use super::frame::{self, Kind};
use crate::confined::{self, Task};

/// Renders the conversations of one model.
pub const TASK: Task = Task {
    argument: "--run-chat-template",
    run: serve,
};

/// For compiling, and for each rendering. Ten thousand messages take a tenth of a second.
pub(super) const SECONDS: u32 = 5;
/// Bytes besides the stack. A rendering needs some six times its conversation.
pub(super) const MEMORY: u64 = 256 << 20;
/// Bytes that a template may make of a conversation: several for each token of the longest contexts.
pub(super) const LONGEST_TEXT: usize = 32 << 20;

const NAME: &str = "chat template";

fn serve() -> io::Result<()> {
    confined::confine(c"chat-template")?;
    setrlimit(Resource::RLIMIT_DATA, MEMORY, MEMORY)?;
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut environment = environment::hugging_face();
    loop {
        let (kind, bytes) = match frame::read(&mut input, usize::MAX) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            frame => frame?,
        };
        // The kernel ends this process when it rings.
        alarm::set(SECONDS);
        let (kind, text) = match kind {
            Kind::Source => compile(&mut environment, bytes),
            _ => render(&environment, &bytes),
        }
        .map_or_else(|error| failed(&error), |text| (Kind::Text, text));
        alarm::cancel();
        if text.len() > LONGEST_TEXT {
            let why = format!("it wrote more than {} MiB", LONGEST_TEXT >> 20);
            frame::write(&mut output, Kind::Stopped, why.as_bytes())?;
        } else {
            frame::write(&mut output, kind, text.as_bytes())?;
        }
    }
}

fn compile(
    environment: &mut Environment<'static>,
    source: Vec<u8>,
) -> Result<String, minijinja::Error> {
    let source = String::from_utf8(source)
        .map_err(|error| minijinja::Error::new(ErrorKind::SyntaxError, error.to_string()))?;
    environment.add_template_owned(NAME, without_marks(&source))?;
    Ok(String::new())
}

/// transformers lets a template mark what an assistant said, for training: `{% generation %}`. What a block is that always
/// is rendered Jinja knows, too.
fn without_marks(source: &str) -> String {
    let mut written = String::with_capacity(source.len());
    let mut rest = source;
    while let Some((before, inside, after)) = rest.split_once("{%").and_then(|(before, after)| {
        let (inside, after) = after.split_once("%}")?;
        Some((before, inside, after))
    }) {
        let word = inside.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        let instead = match word {
            "generation" => Some("if true"),
            "endgeneration" => Some("endif"),
            _ => None,
        };
        let inside = match instead {
            Some(instead) => inside.replace(word, instead),
            None => inside.to_owned(),
        };
        for part in [before, "{%", &inside, "%}"] {
            written.push_str(part);
        }
        rest = after;
    }
    written + rest
}

fn render(environment: &Environment<'_>, variables: &[u8]) -> Result<String, minijinja::Error> {
    let variables: Value = serde_json::from_slice(variables)
        .map_err(|error| minijinja::Error::new(ErrorKind::CannotDeserialize, error.to_string()))?;
    environment.get_template(NAME)?.render(variables)
}

fn failed(error: &minijinja::Error) -> (Kind, String) {
    let raised =
        std::error::Error::source(error).and_then(|source| source.downcast_ref::<Raised>());
    match raised {
        Some(Raised(message)) => (Kind::Refused, message.clone()),
        None if error.kind() == ErrorKind::OutOfFuel => {
            (Kind::Stopped, "it took too many steps".into())
        }
        None => (Kind::Wrong, error.to_string()),
    }
}

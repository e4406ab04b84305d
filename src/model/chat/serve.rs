//! The process that runs one template, from within: bounded by the operating system in memory, stack and time, and
//! ended by its pipe's end. It may crash: nothing else is in it.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use minijinja::{Environment, ErrorKind, Value};
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{alarm, close};

use super::environment::{self, Raised};
use super::frame::{self, Kind};

/// What asks a program for it; no option of the command line.
pub(super) const ARGUMENT: &str = "--run-chat-template";

/// For compiling, and for each rendering. Ten thousand messages take a tenth of a second.
pub(super) const SECONDS: u32 = 5;
/// Bytes besides the stack. A rendering needs some six times its conversation.
pub(super) const MEMORY: u64 = 256 << 20;
/// Bytes that a template may make of a conversation: several for each token of the longest contexts.
pub(super) const LONGEST_TEXT: usize = 32 << 20;

const NAME: &str = "chat template";

static POSSIBLE: AtomicBool = AtomicBool::new(false);

/// Runs a chat template if this process was started for that; the first thing that a program's `main` does.
#[must_use]
pub fn serve_if_asked() -> Option<ExitCode> {
    POSSIBLE.store(true, Ordering::Relaxed);
    if env::args_os().nth(1)? != OsStr::new(ARGUMENT) {
        return None;
    }
    // The pipe has ended, or the system refuses to bound this process: whoever waits for an answer sees its end.
    Some(match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

/// Whether this program's `main` asks.
pub(super) fn is_possible() -> bool {
    POSSIBLE.load(Ordering::Relaxed)
}

fn serve() -> io::Result<()> {
    confine()?;
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

fn confine() -> io::Result<()> {
    // No core, and no debugger of the same user: there are prompts in it.
    prctl::set_dumpable(false)?;
    prctl::set_name(c"chat-template")?;
    setrlimit(Resource::RLIMIT_DATA, MEMORY, MEMORY)?;
    // It ends when the daemon does, which may still have answers to finish.
    let signals = [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGQUIT,
    ];
    signals.into_iter().collect::<SigSet>().thread_block()?;
    // A driver may have opened its devices for children too.
    let open: Vec<i32> = fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // The one of the folder is closed already.
        let _ = close(descriptor);
    }
    Ok(())
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

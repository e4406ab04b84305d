//! Standard output and standard error. A reader that has left is not an error.
//!
//! Most of the output comes from elsewhere: a model, its file, a server, the daemon. A terminal gets no control
//! characters of it; a pipe or a file gets every byte.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write as _};

use crate::failure::{Exit, Failure, OrFail as _, Outcome};

/// Writes `text` at once.
///
/// # Errors
/// A reader that has left ends the program quietly; any other error is reported.
pub(crate) fn print(text: &str) -> Outcome {
    draw(&shown(text, &io::stdout()))
}

/// Writes `text` at once, with its control characters for the terminal.
pub(crate) fn draw(text: &str) -> Outcome {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes());
    match written.and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::quiet(Exit::Ok)),
        written => written.or_fail(Exit::Failed, "standard output"),
    }
}

/// Writes `text` and a line end to standard error, ignoring errors.
pub(crate) fn note(text: &str) {
    let stderr = io::stderr();
    let _ = writeln!(stderr.lock(), "{}", shown(text, &stderr));
}

/// Prints a failure that has a message.
pub(crate) fn print_failure(failure: &Failure) {
    if !failure.message.is_empty() {
        note(&format!("ganglionctl: {}", failure.message));
    }
}

/// Writes a piece of a model's thoughts to standard error at once, dimmed in a terminal.
pub(crate) fn print_thought(text: &str) {
    let stderr = io::stderr();
    let shown = shown(text, &stderr);
    let _ = if stderr.is_terminal() {
        write!(stderr.lock(), "\x1b[2m{shown}\x1b[22m")
    } else {
        write!(stderr.lock(), "{shown}")
    };
}

/// Returns the part of `text` that may be written to `to`.
fn shown<'a>(text: &'a str, to: &impl IsTerminal) -> Cow<'a, str> {
    if to.is_terminal() {
        harmless(text).into()
    } else {
        text.into()
    }
}

/// Replaces control characters other than line ends and tabs by U+FFFD. A model or its file can contain escape
/// sequences, which a terminal would obey.
pub(crate) fn harmless(text: &str) -> String {
    let is_obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
    text.replace(is_obeyed, "\u{fffd}")
}

/// Writes `value` as indented JSON and a line end.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Outcome {
    let text = serde_json::to_string_pretty(value).or_fail(Exit::Failed, "JSON")?;
    print(&format!("{text}\n"))
}

#[cfg(test)]
mod tests {
    use super::harmless;

    #[test]
    fn escape_sequences_do_not_reach_a_terminal() {
        assert_eq!(
            harmless("a\x1b[2Jb\u{9b}c\n\té"),
            "a\u{fffd}[2Jb\u{fffd}c\n\té"
        );
    }
}

//! Standard output, where a reader that has left is no error, and standard error.
//!
//! Most of what is printed was said by others: a model, the file that it came in, a server, the daemon. A terminal gets
//! nothing of it that it would obey; a pipe or a file gets every byte.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write as _};

use crate::failure::{Exit, Failure, OrFail as _, Outcome};

/// Writes `text` at once.
///
/// # Errors
/// A reader that has left ends the program quietly; any other error is told.
pub(crate) fn print(text: &str) -> Outcome {
    draw(&shown(text, &io::stdout()))
}

/// Writes `text` at once, with what it tells a terminal to do.
pub(crate) fn draw(text: &str) -> Outcome {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes());
    match written.and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::quiet(Exit::Ok)),
        written => written.or_fail(Exit::Failed, "standard output"),
    }
}

/// Writes `text` and a line end to standard error, as best it can.
pub(crate) fn tell(text: &str) {
    let stderr = io::stderr();
    let _ = writeln!(stderr.lock(), "{}", shown(text, &stderr));
}

/// Says why a verb failed, where somebody needs to be told.
pub(crate) fn tell_failure(failure: &Failure) {
    if !failure.message.is_empty() {
        tell(&format!("ganglionctl: {}", failure.message));
    }
}

/// Writes a piece of what a model thinks to standard error at once: dimmed where a person reads it.
pub(crate) fn think(text: &str) {
    let stderr = io::stderr();
    let shown = shown(text, &stderr);
    let _ = if stderr.is_terminal() {
        write!(stderr.lock(), "\x1b[2m{shown}\x1b[22m")
    } else {
        write!(stderr.lock(), "{shown}")
    };
}

/// What of `text` may be written to `to`.
fn shown<'a>(text: &'a str, to: &impl IsTerminal) -> Cow<'a, str> {
    if to.is_terminal() {
        harmless(text).into()
    } else {
        text.into()
    }
}

/// A model can be talked into writing escape sequences, its file can be named by one, and a terminal obeys them: control
/// characters other than line ends and tabs become U+FFFD.
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

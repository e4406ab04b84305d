//! Lines of a terminal or a pipe, and texts of several lines between three quotation marks.

use std::io::{self, IsTerminal as _};

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use crate::failure::{Exit, OrFail as _, Outcome, failure};
use crate::output;

/// The beginning and end of a text of several lines.
const QUOTES: &str = "\"\"\"";

/// An input.
#[derive(Debug)]
pub(super) enum Typed {
    Line(String),
    /// A text of several lines, which is never a command.
    Text(String),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D, or the end of the pipe.
    End,
}

/// The source of lines: an editor with a history in memory, or a pipe. Reading blocks, so it belongs on a thread of its
/// own.
#[derive(Debug)]
pub(super) struct Lines(Option<Box<DefaultEditor>>);

impl Lines {
    pub(super) fn open() -> Outcome<Self> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Ok(Self(None));
        }
        let editor = DefaultEditor::new().or_fail(Exit::Failed, "the terminal")?;
        Ok(Self(Some(Box::new(editor))))
    }

    /// Whether the input comes from a terminal.
    pub(super) const fn interactive(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn read(&mut self) -> Outcome<Typed> {
        let first = match self.line("> ")? {
            Typed::Line(line) => line,
            other => return Ok(other),
        };
        let Some(begun) = first.trim_start().strip_prefix(QUOTES) else {
            self.remember(&first);
            return Ok(Typed::Line(first));
        };
        let mut text = begun.to_owned();
        loop {
            if let Some(whole) = text.trim_end().strip_suffix(QUOTES) {
                let whole = whole.trim_matches('\n');
                self.remember(&format!("{QUOTES}{whole}{QUOTES}"));
                return Ok(Typed::Text(whole.into()));
            }
            match self.line(". ")? {
                Typed::Line(line) => text = format!("{text}\n{line}"),
                Typed::End => {
                    let open =
                        failure!(Data: "the text after {QUOTES} did not end: it was not sent");
                    if !self.interactive() {
                        return Err(open);
                    }
                    output::print_failure(&open);
                    return Ok(Typed::Interrupt);
                }
                other => return Ok(other),
            }
        }
    }

    /// Adds an entry to the history.
    fn remember(&mut self, entry: &str) {
        if let Some(editor) = &mut self.0 {
            // The history is not essential.
            let _ = editor.add_history_entry(entry);
        }
    }

    fn line(&mut self, prompt: &str) -> Outcome<Typed> {
        let piped = || io::stdin().lines().next().ok_or(ReadlineError::Eof);
        let line = match &mut self.0 {
            Some(editor) => editor.readline(prompt),
            None => piped().and_then(|line| Ok(line?)),
        };
        match line {
            Err(ReadlineError::Eof) => Ok(Typed::End),
            Err(ReadlineError::Interrupted) => Ok(Typed::Interrupt),
            line => line.map(Typed::Line).or_fail(Exit::Data, "standard input"),
        }
    }
}

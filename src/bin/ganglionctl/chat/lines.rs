//! Lines that a person types, or a program pipes.

use std::io::{self, IsTerminal as _};

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use crate::failure::{Exit, Failure};

/// What was typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    Line(String),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D, or the end of the pipe.
    End,
}

/// Where lines come from. Reading blocks, so it belongs on a thread of its own.
#[derive(Debug)]
pub(super) enum Lines {
    /// Line editing, with a history in memory.
    Editor(Box<DefaultEditor>),
    Plain,
}

impl Lines {
    pub(super) fn open() -> Result<Self, Failure> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Ok(Self::Plain);
        }
        let editor = DefaultEditor::new()
            .map_err(|error| Failure::new(Exit::Failed, format!("the terminal: {error}")))?;
        Ok(Self::Editor(Box::new(editor)))
    }

    /// Whether a person reads along.
    pub(super) const fn interactive(&self) -> bool {
        matches!(self, Self::Editor(_))
    }

    pub(super) fn read(&mut self) -> Result<Typed, Failure> {
        let input = |error: &dyn std::fmt::Display| {
            Failure::new(Exit::Data, format!("standard input: {error}"))
        };
        match self {
            Self::Editor(editor) => match editor.readline("> ") {
                Ok(line) => {
                    // Only comfort is lost if the line cannot be remembered.
                    let _ = editor.add_history_entry(&line);
                    Ok(Typed::Line(line))
                }
                Err(ReadlineError::Eof) => Ok(Typed::End),
                Err(ReadlineError::Interrupted) => Ok(Typed::Interrupt),
                Err(error) => Err(input(&error)),
            },
            Self::Plain => {
                let mut line = String::new();
                match io::stdin().read_line(&mut line) {
                    Ok(0) => Ok(Typed::End),
                    Ok(_) => Ok(Typed::Line(line)),
                    Err(error) => Err(input(&error)),
                }
            }
        }
    }
}

//! Lines that a person types, or a program pipes; and texts of several, between three quotation marks.

use std::io::{self, IsTerminal as _};

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use crate::failure::{Exit, Failure};

/// They begin a text of several lines, and end it.
const QUOTES: &str = "\"\"\"";

/// What was typed.
#[derive(Debug)]
pub(super) enum Typed {
    Line(String),
    /// Of several lines, and no command whatever it begins with.
    Text(String),
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
        let typed = self.line("> ")?;
        let begun = match &typed {
            Typed::Line(line) => line.trim_start().strip_prefix(QUOTES),
            _ => None,
        };
        let Some(begun) = begun else {
            self.remember(&typed);
            return Ok(typed);
        };
        let mut text = begun.to_owned();
        loop {
            if let Some(whole) = text.trim_end().strip_suffix(QUOTES) {
                let typed = Typed::Text(whole.trim_matches('\n').to_owned());
                self.remember(&typed);
                return Ok(typed);
            }
            match self.line(". ")? {
                Typed::Line(line) => {
                    text.push('\n');
                    text.push_str(&line);
                }
                Typed::End => {
                    let message = format!("the text after {QUOTES} did not end: it was not sent");
                    let failure = Failure::new(Exit::Data, message);
                    if !self.interactive() {
                        return Err(failure);
                    }
                    failure.tell();
                    return Ok(Typed::Interrupt);
                }
                other => return Ok(other),
            }
        }
    }

    /// For the keys that bring back what was typed before.
    fn remember(&mut self, typed: &Typed) {
        let entry = match typed {
            Typed::Line(line) => line.clone(),
            Typed::Text(text) => format!("{QUOTES}{text}{QUOTES}"),
            Typed::Interrupt | Typed::End => return,
        };
        if let Self::Editor(editor) = self {
            // Only comfort is lost if it cannot be remembered.
            let _ = editor.add_history_entry(entry);
        }
    }

    fn line(&mut self, prompt: &str) -> Result<Typed, Failure> {
        let input = |error: &dyn std::fmt::Display| {
            Failure::new(Exit::Data, format!("standard input: {error}"))
        };
        match self {
            Self::Editor(editor) => match editor.readline(prompt) {
                Ok(line) => Ok(Typed::Line(line)),
                Err(ReadlineError::Eof) => Ok(Typed::End),
                Err(ReadlineError::Interrupted) => Ok(Typed::Interrupt),
                Err(error) => Err(input(&error)),
            },
            Self::Plain => {
                let mut line = String::new();
                match io::stdin().read_line(&mut line) {
                    Ok(0) => Ok(Typed::End),
                    Ok(_) => {
                        line.truncate(line.trim_end_matches(['\r', '\n']).len());
                        Ok(Typed::Line(line))
                    }
                    Err(error) => Err(input(&error)),
                }
            }
        }
    }
}

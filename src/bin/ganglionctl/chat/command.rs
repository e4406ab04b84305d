//! What a line of a conversation asks for: most are said to the model, those with a slash are for this program.

use crate::failure::{Exit, Failure};

/// For /help, and for the manual.
pub(crate) const COMMANDS: &[(&str, &str)] = &[
    ("/help", "this list"),
    (
        "/set",
        "the options that were given; /set NAME VALUE gives one, /set NAME leaves it to the daemon again",
    ),
    (
        "/system",
        "the system message; /system TEXT begins another conversation with that one, /system \"\" without one",
    ),
    (
        "/save FILE",
        "write the conversation to a new file: JSON if its name ends in .json, else text",
    ),
    ("/history", "what was said so far"),
    ("/undo", "take back the last turn and its answer"),
    ("/clear", "take back all turns; the system message stays"),
    ("/new", "forget the conversation and begin another"),
    ("/bye, /quit", "leave, as Ctrl-D does"),
    ("\"\"\"", "begins a text of several lines, and ends it"),
];

/// What follows the list.
pub(crate) const REST: &str =
    "Ctrl-C cancels an answer; what there is of it stays. Any other line is sent to the model.";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command<'a> {
    Nothing,
    Help,
    Options,
    Set(&'a str, Option<&'a str>),
    ShowSystem,
    System(Option<&'a str>),
    Save(&'a str),
    History,
    Undo,
    Clear,
    New,
    Leave,
    Say(&'a str),
}

impl<'a> Command<'a> {
    /// # Errors
    /// If there is no such command, or it is not given what it needs.
    pub(super) fn of(line: &'a str) -> Result<Self, Failure> {
        let line = line.trim();
        if !line.starts_with('/') {
            return Ok(if line.is_empty() {
                Self::Nothing
            } else {
                Self::Say(line)
            });
        }
        let (name, rest) = cut(line);
        Ok(match (name, rest) {
            ("/help" | "/?", None) => Self::Help,
            ("/set", None) => Self::Options,
            ("/set", Some(rest)) => {
                let (name, value) = cut(rest);
                Self::Set(name, value)
            }
            ("/system", None) => Self::ShowSystem,
            ("/system", Some("\"\"")) => Self::System(None),
            ("/system", Some(text)) => Self::System(Some(text)),
            ("/save", Some(file)) => Self::Save(file),
            ("/save", None) => {
                return Err(Failure::new(Exit::Usage, "/save: name a file"));
            }
            ("/history", None) => Self::History,
            ("/undo", None) => Self::Undo,
            ("/clear", None) => Self::Clear,
            ("/new", None) => Self::New,
            ("/bye" | "/quit" | "/exit", None) => Self::Leave,
            _ => {
                let message = format!("{line}: no such command; /help lists them");
                return Err(Failure::new(Exit::Usage, message));
            }
        })
    }
}

/// The first word, and what follows it.
fn cut(text: &str) -> (&str, Option<&str>) {
    match text.split_once(char::is_whitespace) {
        Some((word, rest)) => (word, Some(rest.trim())),
        None => (text, None),
    }
}

pub(super) fn help() -> String {
    let width = COMMANDS.iter().map(|(name, _)| name.len()).max();
    let width = width.unwrap_or(0);
    let lines = COMMANDS
        .iter()
        .map(|(name, what)| format!("{name:width$}  {what}\n"));
    lines.collect::<String>() + REST + "\n"
}

//! The lines of a conversation that are for this program: they begin with a slash.

/// What /help and the manual list.
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

/// The first word, and what follows it.
pub(super) fn cut(text: &str) -> (&str, Option<&str>) {
    match text.split_once(char::is_whitespace) {
        Some((word, rest)) => (word, Some(rest.trim())),
        None => (text, None),
    }
}

pub(super) fn help() -> String {
    let commands = COMMANDS.iter();
    let rows = commands.map(|(name, what)| ((*name).into(), (*what).into()));
    crate::view::named(rows) + REST + "\n"
}

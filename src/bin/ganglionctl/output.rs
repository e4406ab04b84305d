//! Standard output, where a reader that has left is no error.

use std::io::{self, Write as _};

use crate::failure::{Exit, Failure};

/// Writes `text` at once.
///
/// # Errors
/// A reader that has left ends the program quietly; any other error is told.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|error| {
            if error.kind() == io::ErrorKind::BrokenPipe {
                Failure::quiet(Exit::Ok)
            } else {
                Failure::new(Exit::Failed, format!("standard output: {error}"))
            }
        })
}

/// Writes `value` as indented JSON and a line end.
///
/// # Errors
/// As `print`.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    print_serialized(serde_json::to_string_pretty(value))
}

/// Writes `value` as one line of JSON: for long lists of numbers.
///
/// # Errors
/// As `print`.
pub(crate) fn print_json_line(value: &impl serde::Serialize) -> Result<(), Failure> {
    print_serialized(serde_json::to_string(value))
}

fn print_serialized(json: serde_json::Result<String>) -> Result<(), Failure> {
    let text = json.map_err(|error| Failure::new(Exit::Failed, format!("JSON: {error}")))?;
    print(&format!("{text}\n"))
}

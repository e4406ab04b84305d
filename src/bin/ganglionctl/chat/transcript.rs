//! A conversation as a file. It may be private, so only its owner may read it, and it never replaces an existing file.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use serde_json::Value;

use crate::client::text;
use crate::failure::{Exit, OrFail as _, Outcome, failure};

/// Formats a conversation for people.
pub(super) fn shown(messages: &[Value]) -> String {
    let lines = messages.iter().map(|message| {
        let (role, said) = (text(&message["role"]), text(&message["content"]));
        format!("{role}: {}\n", said.strip_suffix('\n').unwrap_or(said))
    });
    lines.collect()
}

/// Writes a conversation to `file`; `~/` is the home folder.
pub(super) fn save(file: &str, messages: &[Value]) -> Outcome<PathBuf> {
    let path = path(file);
    let content = if path.extension().is_some_and(|end| end == "json") {
        format!("{:#}\n", Value::from(messages))
    } else {
        shown(messages)
    };
    let mut options = File::options();
    let file = options.write(true).create_new(true).mode(0o600).open(&path);
    file.and_then(|mut file| file.write_all(content.as_bytes()))
        .or_fail(Exit::Failed, path.display())?;
    Ok(path)
}

/// Reads the JSON of `save` or `ganglionctl sessions export`, without turns that were dropped.
pub(super) fn load(file: &str) -> Outcome<Vec<Value>> {
    let path = path(file);
    let read = fs::read_to_string(&path).or_fail(Exit::Data, path.display())?;
    let read: Option<Value> = serde_json::from_str(&read).ok();
    let messages = read.and_then(|mut read| match &mut read {
        Value::Object(exported) => exported.remove("messages"),
        _ => Some(read),
    });
    let messages = match messages {
        Some(Value::Array(messages)) if messages.iter().all(is_message) => messages,
        _ => {
            return Err(failure!(
                Data: "{}: it is not a conversation in JSON: give a file that /save wrote to a name in .json, or that \
                       ganglionctl sessions export wrote", path.display()
            ));
        }
    };
    let is_kept = |message: &Value| message["dropped"] != true;
    Ok(messages.into_iter().filter(is_kept).collect())
}

/// Whether a file of that name exists.
pub(super) fn is_there(file: &str) -> bool {
    path(file).is_file()
}

fn is_message(value: &Value) -> bool {
    value["role"].is_string()
}

fn path(file: &str) -> PathBuf {
    match (file.strip_prefix("~/"), std::env::home_dir()) {
        (Some(below), Some(home)) => home.join(below),
        _ => file.into(),
    }
}

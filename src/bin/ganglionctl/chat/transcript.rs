//! A conversation as a file. It may be private, and what is there already may be dear: only a new file is written, which
//! nobody else may read.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::failure::{Exit, OrFail as _, Outcome};

/// What was said, as people read it.
pub(super) fn text(said: &[(String, String)]) -> String {
    let lines = said
        .iter()
        .map(|(role, text)| format!("{role}: {}\n", text.strip_suffix('\n').unwrap_or(text)));
    lines.collect()
}

/// Writes it to `file`; `~/` is the home folder.
pub(super) fn save(file: &str, said: &[(String, String)]) -> Outcome<PathBuf> {
    let path = match (file.strip_prefix("~/"), std::env::home_dir()) {
        (Some(below), Some(home)) => home.join(below),
        _ => file.into(),
    };
    let content = if path.extension().is_some_and(|end| end == "json") {
        let messages = said.iter();
        let messages = messages.map(|(role, content)| json!({"role": role, "content": content}));
        format!("{:#}\n", messages.collect::<Value>())
    } else {
        text(said)
    };
    let mut options = File::options();
    let file = options.write(true).create_new(true).mode(0o600).open(&path);
    file.and_then(|mut file| file.write_all(content.as_bytes()))
        .or_fail(Exit::Failed, path.display())?;
    Ok(path)
}

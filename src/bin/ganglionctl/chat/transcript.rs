//! A conversation as a file. It may be private, and what is there already may be dear: only a new file is written, which
//! nobody else may read.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::failure::{Exit, Failure};

/// What was said, as people read it.
pub(super) fn text(said: &[(String, String)]) -> String {
    let lines = said
        .iter()
        .map(|(role, text)| format!("{role}: {}\n", text.strip_suffix('\n').unwrap_or(text)));
    lines.collect()
}

/// Writes it to `file`; `~/` is the home folder.
///
/// # Errors
/// If the file is there, or cannot be written.
pub(super) fn save(file: &str, said: &[(String, String)]) -> Result<PathBuf, Failure> {
    let path = match (file.strip_prefix("~/"), std::env::home_dir()) {
        (Some(below), Some(home)) => home.join(below),
        _ => file.into(),
    };
    let content = if path.extension().is_some_and(|end| end == "json") {
        let messages: Vec<_> = said
            .iter()
            .map(|(role, content)| json!({"role": role, "content": content}))
            .collect();
        format!("{:#}\n", serde_json::Value::from(messages))
    } else {
        text(said)
    };
    write(&path, &content)
        .map_err(|error| Failure::new(Exit::Failed, format!("{}: {error}", path.display())))?;
    Ok(path)
}

fn write(path: &Path, content: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(content.as_bytes())
}

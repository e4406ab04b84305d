//! The program that carries out tool calls.

use std::process::Stdio;

use ganglion::bus::TEXT_BYTES;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::client::calls;
use crate::failure::{Exit, OrFail as _, Outcome};
use crate::output;

/// Runs `program` for a call, and returns its output or its failure for the model.
pub(super) async fn run(program: &str, call: &Value, quiet: bool) -> Outcome<String> {
    let (name, arguments) = (calls::name(call), calls::arguments(call).to_string());
    if !quiet {
        output::note(&format!("{name} {arguments}"));
    }
    let mut child = Command::new(program)
        .arg(name)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .or_fail(Exit::Failed, program)?;
    if let Some(mut stdin) = child.stdin.take() {
        // The program need not read its input.
        let _ = stdin.write_all(arguments.as_bytes()).await;
    }
    let ended = child.wait_with_output().await;
    let ended = ended.or_fail(Exit::Failed, program)?;
    let mut said = String::from_utf8_lossy(&ended.stdout).into_owned();
    // A message can hold neither a NUL nor more bytes than one call takes.
    said = said.replace('\0', "\u{fffd}");
    let end = (0..=TEXT_BYTES.min(said.len()))
        .rev()
        .find(|end| said.is_char_boundary(*end));
    said.truncate(end.unwrap_or_default());
    said.truncate(said.trim_end_matches('\n').len());
    if !ended.status.success() {
        output::note(&format!("ganglionctl: {program} {name}: {}", ended.status));
        let parts = [said, format!("error: {}", ended.status)];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        return Ok(parts.join("\n"));
    }
    Ok(said)
}

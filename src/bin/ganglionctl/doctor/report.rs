//! `--report FILE`: all that was found and read, in one text file for a bug report.
//!
//! Prompts and answers are in none of it: the journal never has them, and nothing else is read that could.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::finding::Finding;
use super::tree::Tree;
use super::unit;
use crate::failure::{Exit, Failure};

/// Entries of the journal.
const ENTRIES: &str = "500";

/// Writes what is known to `file`, which only its owner may read.
///
/// # Errors
/// If it cannot be written.
pub(super) fn write(tree: &Tree, findings: &[Finding], file: &Path) -> Result<(), Failure> {
    let journal = [
        "journalctl",
        "-u",
        unit::NAME,
        "-o",
        "json",
        "-n",
        ENTRIES,
        "--no-pager",
    ];
    let _ = tree.command("journalctl", &journal);
    let _ = tree.command("uname", &["uname", "-a"]);
    let _ = tree.command("systemctl-version", &["systemctl", "--version"]);
    let mut text = format!(
        "ganglionctl {} doctor --report, {}\nIt holds no prompt and no answer.\n",
        env!("CARGO_PKG_VERSION"),
        jiff::Timestamp::now()
    );
    section(
        &mut text,
        "findings",
        &findings.iter().map(Finding::line).collect::<String>(),
    );
    for (source, content) in tree.seen() {
        section(&mut text, &source, &content);
    }
    let told =
        |error: std::io::Error| Failure::new(Exit::Failed, format!("{}: {error}", file.display()));
    write_private(file, &text).map_err(told)
}

fn write_private(file: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(file)?;
    // One that was there keeps the mode that it had.
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    file.write_all(text.as_bytes())
}

fn section(text: &mut String, name: &str, content: &str) {
    let content = content.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    let _ = write!(text, "\n==> {name}\n{content}\n");
}

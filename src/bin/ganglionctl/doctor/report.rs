//! `--report FILE`: all that was found and read, in one text file for a bug report.
//!
//! Prompts and answers are in none of it: the journal never has them, and nothing else is read that could.

use std::fmt::Write as _;
use std::fs::{File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use super::finding::Findings;
use super::tree::Tree;
use super::unit;
use crate::failure::{Exit, OrFail as _, Outcome};

/// Writes what is known to `file`, which only its owner may read.
///
/// # Errors
/// If it cannot be written.
pub(super) fn write(tree: &Tree, findings: &Findings, file: &Path) -> Outcome {
    for (name, command) in [
        (
            "journalctl",
            &format!("journalctl -u {} -o json -n 500 --no-pager", unit::NAME)[..],
        ),
        ("uname", "uname -a"),
        ("systemctl-version", "systemctl --version"),
    ] {
        let _ = tree.command(name, command);
    }
    let mut text = format!(
        "ganglionctl {} doctor --report, {}\nIt holds no prompt and no answer.\n",
        env!("CARGO_PKG_VERSION"),
        jiff::Timestamp::now()
    );
    let found = ("findings".to_owned(), findings.text());
    for (name, content) in [found].into_iter().chain(tree.seen()) {
        let content = content.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        let _ = write!(text, "\n==> {name}\n{content}\n");
    }
    write_private(file, &text).or_fail(Exit::Failed, file.display())
}

fn write_private(file: &Path, text: &str) -> std::io::Result<()> {
    let mut options = File::options();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(file)?;
    // One that was there keeps the mode that it had.
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(text.as_bytes())
}

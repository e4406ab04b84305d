//! The configured model: its files, their checksums, and whether the service can read them.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use ganglion::model::{Checkpoint, Language};

use super::finding::{Finding, Mark};
use super::tree::Tree;
use super::unit::Unit;
use crate::checksum;

const CHECK: &str = "model";

/// Opens it, and says what is wrong with it.
pub(super) fn open(tree: &Tree, path: &Path, findings: &mut Vec<Finding>) -> Option<Checkpoint> {
    let shown = path.display();
    let here = tree.path(path);
    if let Err(error) = fs::metadata(&here) {
        let remedy = "ganglionctl pull fetches one; then set model.path, or run ganglionctl setup";
        findings.push(Finding::fail(CHECK, format!("{shown}: {error}"), remedy));
        return None;
    }
    let checkpoint = match Checkpoint::open(&here) {
        Ok(checkpoint) => checkpoint,
        Err(error) => {
            findings.push(Finding::new(Mark::Fail, CHECK, error.to_string()));
            return None;
        }
    };
    findings.push(match speaks(&checkpoint) {
        Ok(()) => {
            let mib = checkpoint.weight_bytes() >> 20;
            let what = format!("{shown}: {}, {mib} MiB of weights", checkpoint.name);
            Finding::ok(CHECK, what)
        }
        Err(why) => Finding::new(Mark::Fail, CHECK, format!("{shown}: {why}")),
    });
    Some(checkpoint)
}

/// Whether its tokenizer and its chat template can be used.
fn speaks(checkpoint: &Checkpoint) -> Result<(), String> {
    let source = checkpoint.language_source();
    let source = source.map_err(|error| error.defect.to_string())?;
    Language::load(source).map_err(|error| error.to_string())?;
    Ok(())
}

/// Whether the unit's settings keep the service from it.
pub(super) fn reach(unit: &Unit, path: &Path) -> Option<Finding> {
    let setting = unit.hides(path)?;
    Some(Finding::fail(
        "sandbox",
        format!(
            "{setting}= of the unit hides {} from the service",
            path.display()
        ),
        remedy(path),
    ))
}

/// What opens a folder to the service.
fn remedy(path: &Path) -> String {
    let folder = path.parent().unwrap_or(path).display();
    format!(
        "move it to /var/lib/ganglion/models; or sudo systemctl edit gangliond, [Service], \
         BindReadOnlyPaths={folder}:/var/lib/ganglion/elsewhere, and model.path below /var/lib/ganglion/elsewhere"
    )
}

/// Reads it as the service does.
pub(super) fn read_inside(path: &Path) -> Finding {
    const SANDBOX: &str = "sandbox";
    let unreadable = files(path).into_iter().find_map(|file| {
        let error = fs::File::open(&file).err()?;
        Some((file, error))
    });
    match unreadable {
        None => Finding::ok(SANDBOX, format!("the service can read {}", path.display())),
        Some((file, error)) => {
            let what = format!("the service cannot read {}: {error}", file.display());
            let remedy = match error.kind() {
                std::io::ErrorKind::NotFound => remedy(path),
                _ => format!(
                    "sudo chown -R ganglion: {0}, or if the sandbox hides it: {1}",
                    path.display(),
                    remedy(path)
                ),
            };
            Finding::fail(SANDBOX, what, remedy)
        }
    }
}

/// Holds the files against the checksums beside them: `FILE.sha256`, as `pull` and sha256sum write them.
pub(super) fn checksums(tree: &Tree, path: &Path) -> Finding {
    const CHECK: &str = "checksum";
    let mut known = 0;
    let files = files(&tree.path(path));
    for file in &files {
        let Some(expected) = checksum::recorded(file) else {
            continue;
        };
        match checksum::open(file).and_then(|mut file| checksum::of(&mut file)) {
            Ok(found) if found == expected => known += 1,
            Ok(found) => {
                let name = file.display();
                let what = format!("{name} has the SHA-256 {found}, and {expected} is recorded");
                return Finding::fail(
                    CHECK,
                    what,
                    "it is damaged: fetch it again with ganglionctl pull --force",
                );
            }
            Err(error) => {
                let what = format!("{}: {error}", file.display());
                return Finding::fail(CHECK, what, "the disk may be failing: see sudo dmesg");
            }
        }
    }
    if known == 0 {
        let what = format!("none is recorded beside {}", path.display());
        return Finding::warn(
            CHECK,
            what,
            "sha256sum FILE > FILE.sha256 records it; ganglionctl pull does so itself",
        );
    }
    Finding::ok(
        CHECK,
        format!("{known} of {} files are as recorded", files.len()),
    )
}

/// The files that hold a model: itself, or what lies in its folder.
fn files(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else {
        return vec![path.into()];
    };
    let model = |file: &PathBuf| {
        let extension = file.extension().and_then(OsStr::to_str);
        matches!(extension, Some("safetensors" | "json" | "gguf"))
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<_> = paths.filter(model).collect();
    files.sort();
    files
}

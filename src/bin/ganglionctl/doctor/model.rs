//! The configured model: its files, their checksums, and whether the service can read them.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ganglion::model::{Checkpoint, Language};

use super::finding::Findings;
use super::tree::Tree;
use super::unit::Unit;
use crate::checksum;

const CHECK: &str = "model";
const SANDBOX: &str = "sandbox";

/// Opens it, and says what is wrong with it.
pub(super) fn open(tree: &Tree, path: &Path, found: &mut Findings) -> Option<Checkpoint> {
    let shown = path.display();
    let here = tree.path(path);
    if let Err(error) = fs::metadata(&here) {
        let remedy = "ganglionctl pull fetches one; then set model.path, or run ganglionctl setup";
        found.fail(CHECK, format!("{shown}: {error}"), remedy);
        return None;
    }
    let opened = Checkpoint::open(&here).map_err(|error| found.error(CHECK, error));
    let checkpoint = opened.ok()?;
    match speaks(&checkpoint) {
        Ok(()) => {
            let (name, mib) = (&checkpoint.name, checkpoint.weight_bytes() >> 20);
            found.ok(CHECK, format!("{shown}: {name}, {mib} MiB of weights"));
        }
        Err(why) => found.error(CHECK, format!("{shown}: {why}")),
    }
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
pub(super) fn reach(unit: &Unit, path: &Path, found: &mut Findings) {
    if let Some(setting) = unit.hides(path) {
        let shown = path.display();
        let what = format!("{setting}= of the unit hides {shown} from the service");
        found.fail(SANDBOX, what, remedy(path));
    }
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
pub(super) fn read_inside(path: &Path, found: &mut Findings) {
    let shown = path.display();
    let opened = files(path).into_iter();
    let mut refused = opened.filter_map(|file| Some((fs::File::open(&file).err()?, file)));
    let Some((error, file)) = refused.next() else {
        return found.ok(SANDBOX, format!("the service can read {shown}"));
    };
    let what = format!("the service cannot read {}: {error}", file.display());
    let moved = remedy(path);
    if error.kind() == ErrorKind::NotFound {
        return found.fail(SANDBOX, what, moved);
    }
    let owned = format!("sudo chown -R ganglion: {shown}");
    let remedy = format!("{owned}, or if the sandbox hides it: {moved}");
    found.fail(SANDBOX, what, remedy);
}

/// Holds the files against the checksums beside them: `FILE.sha256`, as `pull` and sha256sum write them.
pub(super) fn checksums(tree: &Tree, path: &Path, found: &mut Findings) {
    const CHECK: &str = "checksum";
    let files = files(&tree.path(path));
    let recorded = files
        .iter()
        .filter_map(|file| Some((file, checksum::recorded(file)?)));
    let mut known = 0;
    for (file, expected) in recorded {
        let name = file.display();
        match checksum::open(file).and_then(|mut file| checksum::of(&mut file)) {
            Ok(sum) if sum == expected => known += 1,
            Ok(sum) => {
                let what = format!("{name} has the SHA-256 {sum}, and {expected} is recorded");
                let remedy = "it is damaged: fetch it again with ganglionctl pull --force";
                return found.fail(CHECK, what, remedy);
            }
            Err(error) => {
                let remedy = "the disk may be failing: see sudo dmesg";
                return found.fail(CHECK, format!("{name}: {error}"), remedy);
            }
        }
    }
    if known == 0 {
        let remedy = "sha256sum FILE > FILE.sha256 records it; ganglionctl pull does so itself";
        let what = format!("none is recorded beside {}", path.display());
        return found.warn(CHECK, what, remedy);
    }
    let all = files.len();
    found.ok(CHECK, format!("{known} of {all} files are as recorded"));
}

/// The files that hold a model: itself, or what lies in its folder.
fn files(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else {
        return vec![path.into()];
    };
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| {
        let extension = file.extension().and_then(OsStr::to_str);
        matches!(extension, Some("safetensors" | "json" | "gguf"))
    });
    files.sort();
    files
}

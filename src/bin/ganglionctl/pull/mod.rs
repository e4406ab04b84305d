//! `ganglionctl pull`: brings a model to this machine, whole or not at all.
//!
//! It comes in as `FILE.part`, which a later run goes on with. Only what has its length, its checksum where one is
//! known, and the shape of a model gets its name.
//!
//! Root does it as the owner of the folder: before a file of that folder is looked at, or a server asked, `folder` gives
//! up root's rights. Only a folder that is root's own is written to by root.

mod address;
pub(crate) mod folder;
mod http;
mod part;
mod walk;

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Parser;
use ganglion::model::Checkpoint;

use crate::doctor::Machine;
use crate::failure::{Failure, Outcome, bail, ensure, failure};
use crate::{checksum, models, output};
use address::Address;
use folder::Folder;
use part::Part;

/// Bytes of the largest file that is taken if nobody says how large it is: what an Orin has memory for.
const LARGEST: u64 = 64 << 30;

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// A name of --list, OWNER/REPOSITORY:FILE on Hugging Face, a URL, or a file on this machine
    #[arg(required_unless_present = "list")]
    model: Option<String>,
    /// Print the models that suit each board
    #[arg(long)]
    list: bool,
    /// The folder to put it in: another disk, for example. Root does it as the folder's owner
    #[arg(long, value_name = "DIR", default_value = models::FOLDER)]
    dir: PathBuf,
    /// The SHA-256 that it must have; a name of --list has one, and Hugging Face tells one
    #[arg(long, value_name = "HEX", value_parser = sha256)]
    sha256: Option<String>,
    /// How often to try again after nothing came, each time later
    #[arg(long, value_name = "N", default_value_t = 8)]
    retries: u32,
    /// Fetch it even if it is there
    #[arg(long)]
    force: bool,
}

fn sha256(text: &str) -> Result<String, String> {
    checksum::parse(text).ok_or_else(|| "it must be 64 hexadecimal digits".into())
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let Some(model) = arguments.model.as_deref().filter(|_| !arguments.list) else {
        return output::print(&models::table()?);
    };
    // A file here is opened before root gives up what lets it read.
    let mut address = Address::of(model)?;
    let name = OsString::from(address.file_name()?);
    // The service, and setup, look for it from elsewhere.
    let path = std::path::absolute(&arguments.dir);
    let path = path.map_err(|error| failed(&arguments.dir, &error))?;
    let folder = Folder::enter(&path)?;
    let listed = models::named(model);
    let bytes = listed.as_ref().map(|model| model.bytes);
    let wanted = arguments.sha256.clone();
    let wanted = wanted.or(listed.map(|model| model.sha256));
    if folder.has(&name) && !arguments.force {
        // Whoever names a file here means what is in it by now.
        let expected = match (wanted, &mut address) {
            (None, Address::File(path, file)) => {
                Some(checksum::of(file).map_err(|error| failed(path, &error))?)
            }
            (wanted, _) => wanted,
        };
        return there(&folder, &name, expected);
    }
    let file = folder.at(&name);
    let shown = file.display();
    let mut part = Part::open(&folder, &name, bytes.unwrap_or(LARGEST), wanted)?;
    let came = match address {
        Address::File(path, mut file) => part.copy(&path, &mut file),
        Address::Remote(url) => http::fetch(&url, &mut part, arguments.retries),
    };
    came.inspect_err(|_| {
        if part.length == 0 {
            part.discard();
        }
    })?;
    let found = part.check()?;
    if let Err(error) = Checkpoint::open(&part.path()) {
        part.discard();
        let why = error.defect;
        bail!(Data: "what came is no model that this release can run, and was not kept: {why}");
    }
    let checked = match part.expected() {
        Some(_) => "its SHA-256 is as expected",
        None => "its SHA-256 is now recorded; nobody told what it should be",
    };
    part.finish(&found)?;
    output::tell(&format!("{shown}: {checked} ({found})"));
    if let Some(why) = Machine::new(None).hides(&file) {
        output::tell(&format!(
            "the service will not be able to use it there: {why}"
        ));
    }
    output::tell(&format!(
        "next: sudo ganglionctl setup --model {shown}; or, where gangliond is set up already, sudo ganglionctl use {shown}"
    ));
    output::print(&format!("{shown}\n"))
}

/// It need not be fetched, if it is what was asked for.
fn there(folder: &Folder, name: &OsStr, expected: Option<String>) -> Outcome {
    let file = folder.at(name);
    let shown = file.display();
    let mut there = folder.read(name).map_err(|error| {
        failure!(Data: "{shown} is there, but: {error}: --force puts the model in its place")
    })?;
    let recorded = || {
        let record = folder.read(&checksum::beside(name, checksum::RECORDED));
        checksum::in_record(record.ok()?)
    };
    let whole = if expected.is_some() {
        ""
    } else {
        ", wherever it came from: --force fetches it again"
    };
    if let Some(expected) = expected.or_else(recorded) {
        let found = folder.told(name, checksum::of(&mut there))?;
        ensure!(
            found == expected,
            Data: "{shown} is there with the SHA-256 {found}, not {expected}: --force fetches it again"
        );
    }
    output::tell(&format!("{shown} is there already{whole}"));
    output::print(&format!("{shown}\n"))
}

/// An error of the disk, with what helps.
fn failed(file: &Path, error: &std::io::Error) -> Failure {
    let failure = failure!(Failed: "{}: {error}", file.display());
    match error.kind() {
        ErrorKind::PermissionDenied => {
            failure.and("run it with sudo, or name a folder of your own with --dir")
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => failure.and(
            "make room, or name another disk with --dir: a second run goes on where this one stopped",
        ),
        _ => failure,
    }
}

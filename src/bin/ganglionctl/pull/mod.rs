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
use ganglion::load::{LoadError, OpenModel};
use ganglion::model::checkpoint::{all_parts, first_part};

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
    let address = Address::of(model)?;
    let name = address.file_name()?;
    if let Some(first) = first_part(Path::new(&name)) {
        bail!(Usage: "{name} is a later part of a split model: name its first part, {}", first.display());
    }
    let mut files = Vec::new();
    for part in all_parts(Path::new(&name)) {
        let part = part.display().to_string();
        let address = Address::of(&model.replace(&name, &part))?;
        files.push((OsString::from(part), address));
    }
    // The service, and setup, look for it from elsewhere.
    let path = std::path::absolute(&arguments.dir);
    let path = path.map_err(|error| failed(&arguments.dir, &error))?;
    let folder = Folder::enter(&path)?;
    let listed = models::named(model);
    let bytes = listed.as_ref().map(|model| model.bytes);
    let wanted = arguments.sha256.clone();
    ensure!(
        files.len() == 1 || wanted.is_none(),
        Usage: "{name} has {} parts, and --sha256 is of one file: leave it out", files.len()
    );
    let wanted = wanted.or(listed.map(|model| model.sha256));
    let is_whole = files.len() == 1;
    let mut came = Vec::new();
    for (name, address) in files {
        let asked = Asked {
            name: &name,
            most: bytes.unwrap_or(LARGEST),
            wanted: wanted.clone(),
        };
        if fetch(&folder, asked, address, arguments, is_whole)? {
            came.push(name);
        }
    }
    let file = folder.at(OsStr::new(&name));
    if !came.is_empty() {
        if !is_whole {
            check_parts(&folder, &file, &came)?;
        }
        announce(&file);
    }
    output::print(&format!("{}\n", file.display()))
}

/// A file that is to be there.
struct Asked<'a> {
    name: &'a OsStr,
    /// The bytes that it may have.
    most: u64,
    /// The SHA-256 that it must have.
    wanted: Option<String>,
}

/// Brings one file, and returns whether it was not there before. A whole model is opened before it gets its name.
fn fetch(
    folder: &Folder,
    asked: Asked<'_>,
    mut address: Address,
    arguments: &Arguments,
    is_whole: bool,
) -> Outcome<bool> {
    let Asked { name, most, wanted } = asked;
    if folder.has(name) && !arguments.force {
        // Whoever names a file here means what is in it by now.
        let expected = match (wanted, &mut address) {
            (None, Address::File(path, file)) => {
                Some(checksum::of(file).map_err(|error| failed(path, &error))?)
            }
            (wanted, _) => wanted,
        };
        return there(folder, name, expected).map(|()| false);
    }
    let mut part = Part::open(folder, name, most, wanted)?;
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
    if is_whole && let Err(error) = OpenModel::read(&part.path(), None) {
        part.discard();
        return Err(no_model(error));
    }
    let checked = match part.expected() {
        Some(_) => "its SHA-256 is as expected",
        None => "its SHA-256 is now recorded; nobody told what it should be",
    };
    part.finish(&found)?;
    let shown = folder.at(name);
    output::tell(&format!("{}: {checked} ({found})", shown.display()));
    Ok(true)
}

/// Opens a model once all its parts are there. If it is refused, the parts that came are removed.
fn check_parts(folder: &Folder, first: &Path, came: &[OsString]) -> Outcome {
    let Err(error) = OpenModel::read(first, None) else {
        return Ok(());
    };
    for name in came {
        for name in [name.clone(), checksum::beside(name, checksum::RECORDED)] {
            folder.told(&name, folder.remove(&name))?;
        }
    }
    Err(no_model(error))
}

fn no_model(error: LoadError) -> Failure {
    let why = match error {
        // The path may be one of this process alone.
        LoadError::Model(error) => error.defect.to_string(),
        LoadError::Language { error, .. } => error.to_string(),
        error => error.to_string(),
    };
    failure!(Data: "what came is no model that this release can run, and was not kept: {why}")
}

/// Says what to do with a model that is there.
fn announce(file: &Path) {
    let shown = file.display();
    if let Some(why) = Machine::new(None).hides(file) {
        output::tell(&format!(
            "the service will not be able to use it there: {why}"
        ));
    }
    output::tell(&format!(
        "next: sudo ganglionctl setup --model {shown}; or, where gangliond is set up already, sudo ganglionctl use {shown}"
    ));
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
    Ok(())
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

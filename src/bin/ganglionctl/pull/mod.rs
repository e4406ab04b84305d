//! `ganglionctl pull`: brings a model to this machine. A download is `FILE.part` until its length, its checksum (if
//! known) and its format are verified; a later run resumes it. Root works as the owner of the folder (`folder`).
//! Not here: the list of known models (`models`).

mod address;
mod disk_error;
pub(crate) mod folder;
mod http;
mod part;
mod walk;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::Parser;
use ganglion::load::{LoadError, OpenModel};
use ganglion::model::AssistantCheckpoint;
use ganglion::model::checkpoint::{all_parts, first_part};

use crate::doctor::Machine;
use crate::failure::{Failure, Outcome, bail, ensure, failure};
use crate::{checksum, models, output};
use address::Address;
use disk_error::failed;
use folder::Folder;
use part::Part;

/// The most bytes of a file of unknown size, as large as an Orin's memory.
const LARGEST: u64 = 64 << 30;

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// A name of --list, OWNER/REPOSITORY:FILE on Hugging Face, a URL, or a file on this machine
    #[arg(required_unless_present = "list")]
    model: Option<String>,
    /// Print the models that suit each board
    #[arg(long)]
    list: bool,
    /// The folder for the model, for example on another disk. Root works as the folder's owner
    #[arg(long, value_name = "DIR", default_value = models::FOLDER)]
    dir: PathBuf,
    /// The expected SHA-256; the names of --list and large files on Hugging Face have one already
    #[arg(long, value_name = "HEX", value_parser = sha256)]
    sha256: Option<String>,
    /// The number of attempts after one without data, with growing pauses
    #[arg(long, value_name = "N", default_value_t = 8)]
    retries: u32,
    /// Fetch it even if it exists
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
    // A local file is opened while root still has its permissions.
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
    // The service and setup use the path from another directory.
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

/// A file to fetch.
struct Asked<'a> {
    name: &'a OsStr,
    /// The most bytes that it may have.
    most: u64,
    /// The expected SHA-256.
    wanted: Option<String>,
}

/// Fetches one file, and returns whether it is new. A model in one file is opened before the file gets its name.
fn fetch(
    folder: &Folder,
    asked: Asked<'_>,
    mut address: Address,
    arguments: &Arguments,
    is_whole: bool,
) -> Outcome<bool> {
    let Asked { name, most, wanted } = asked;
    if folder.has(name) && !arguments.force {
        // A local file is meant with its present content.
        let expected = match (wanted, &mut address) {
            (None, Address::File(path, file)) => {
                Some(checksum::of(file).map_err(|error| failed(path, &error))?)
            }
            (wanted, _) => wanted,
        };
        return check_existing(folder, name, expected).map(|()| false);
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
    if is_whole && let Err(error) = check(&part.path()) {
        part.discard();
        return Err(no_model(error));
    }
    let checked = match part.expected() {
        Some(_) => "its SHA-256 is as expected",
        None => "its SHA-256 was recorded; no expected one is known",
    };
    part.finish(&found)?;
    let shown = folder.at(name);
    output::note(&format!("{}: {checked} ({found})", shown.display()));
    Ok(true)
}

/// Opens a model once all its parts are there. If it is invalid, the new parts are removed.
fn check_parts(folder: &Folder, first: &Path, came: &[OsString]) -> Outcome {
    let Err(error) = check(first) else {
        return Ok(());
    };
    for name in came {
        for name in [
            name.clone(),
            checksum::with_suffix(name, checksum::RECORDED),
        ] {
            folder.explain(&name, folder.remove(&name))?;
        }
    }
    Err(no_model(error))
}

/// Checks that a file is a model, or an assistant, which draft.model names.
fn check(file: &Path) -> Result<(), LoadError> {
    match AssistantCheckpoint::open(file)? {
        Some(_) => Ok(()),
        None => OpenModel::read(file, None).map(drop),
    }
}

fn no_model(error: LoadError) -> Failure {
    let why = match error {
        // The path may exist only for this process.
        LoadError::Model(error) => error.defect.to_string(),
        LoadError::Language { error, .. } => error.to_string(),
        error => error.to_string(),
    };
    failure!(Data: "the download is not a model that this release can run, and was deleted: {why}")
}

/// Prints the next step for a model that is there.
fn announce(file: &Path) {
    let shown = file.display();
    if let Some(why) = Machine::new(None).hides(file) {
        output::note(&format!(
            "the service will not be able to use it there: {why}"
        ));
    }
    if let Ok(Some(_)) = AssistantCheckpoint::open(file) {
        output::note(&format!(
            "next: in gangliond.toml, set draft.model to {shown}, and engine.guess to \"draft\""
        ));
        return;
    }
    output::note(&format!(
        "next: sudo ganglionctl setup --model {shown}; or, where gangliond is set up already, sudo ganglionctl use {shown}"
    ));
}

/// Checks an existing file against the expected one, so that it need not be fetched.
fn check_existing(folder: &Folder, name: &OsStr, expected: Option<String>) -> Outcome {
    let file = folder.at(name);
    let shown = file.display();
    let mut there = folder
        .read(name)
        .map_err(|error| failure!(Data: "{shown} exists, but: {error}: --force replaces it"))?;
    let recorded = || {
        let record = folder.read(&checksum::with_suffix(name, checksum::RECORDED));
        checksum::in_record(record.ok()?)
    };
    let whole = if expected.is_some() {
        ""
    } else {
        ", wherever it came from: --force fetches it again"
    };
    if let Some(expected) = expected.or_else(recorded) {
        let found = folder.explain(name, checksum::of(&mut there))?;
        ensure!(
            found == expected,
            Data: "{shown} is there with the SHA-256 {found}, not {expected}: --force fetches it again"
        );
    }
    output::note(&format!("{shown} is there already{whole}"));
    Ok(())
}

//! What a folder of models holds: GGUF files, folders of safetensors, and downloads that are not whole.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ganglion::model::{Checkpoint, Defect};
use serde::Serialize;

use super::served::InForce;
use crate::failure::{Exit, Failure};
use crate::models;

/// How the name of a download ends that is not whole.
pub(super) const PART: &str = ".part";

#[derive(Debug)]
pub(super) struct Stored {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// In what most of its weights are stored.
    Model(String),
    Incomplete,
    /// Why it is none that this release can run.
    Unusable(String),
}

/// The keys are stable: scripts read them.
#[derive(Debug, Serialize)]
pub(super) struct Entry<'a> {
    name: &'a str,
    path: &'a Path,
    bytes: u64,
    format: Option<&'a str>,
    /// "served", "configured", or nothing.
    state: Option<&'static str>,
    problem: Option<&'a str>,
}

impl Stored {
    /// Opens it, if it is a model by its name.
    fn of(path: PathBuf) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy().into_owned();
        let metadata = fs::metadata(&path).ok()?;
        let is_gguf = |name: &str| {
            let end = Path::new(name).extension();
            end.is_some_and(|end| end.eq_ignore_ascii_case("gguf"))
        };
        let is_model = if metadata.is_dir() {
            path.join("config.json").exists()
        } else {
            is_gguf(&name)
        };
        let kind = if name.starts_with('.') {
            return None;
        } else if is_model {
            kind(&path)
        } else if name.strip_suffix(PART).is_some_and(is_gguf) {
            Kind::Incomplete
        } else {
            return None;
        };
        let bytes = if metadata.is_dir() {
            files(&path).unwrap_or_default()
        } else {
            metadata.len()
        };
        Some(Self {
            name,
            path,
            bytes,
            kind,
        })
    }

    /// For people.
    pub(super) fn format(&self) -> String {
        match &self.kind {
            Kind::Model(format) => format.clone(),
            Kind::Incomplete => "incomplete: pull it again to go on".into(),
            Kind::Unusable(why) => format!("unusable: {why}"),
        }
    }

    pub(super) fn entry(&self, in_force: &InForce) -> Entry<'_> {
        let (format, problem) = match &self.kind {
            Kind::Model(format) => (Some(format.as_str()), None),
            Kind::Incomplete => (None, Some("incomplete")),
            Kind::Unusable(why) => (None, Some(why.as_str())),
        };
        Entry {
            name: &self.name,
            path: &self.path,
            bytes: self.bytes,
            format,
            state: in_force.of(&self.path),
            problem,
        }
    }
}

fn kind(path: &Path) -> Kind {
    let checkpoint = match Checkpoint::open(path) {
        Ok(checkpoint) => checkpoint,
        Err(error) => {
            return Kind::Unusable(match error.defect {
                // What helps is said for the daemon's key, which did not name this one.
                Defect::Io(why) => why.to_string(),
                defect => defect.to_string(),
            });
        }
    };
    let mut formats: Vec<(String, usize)> = Vec::new();
    let _ = checkpoint.tensors.try_map(|tensor| {
        let format = format!("{:?}", tensor.format);
        match formats.iter_mut().find(|(name, _)| *name == format) {
            Some((_, bytes)) => *bytes += tensor.bytes(),
            None => formats.push((format, tensor.bytes())),
        }
        Ok::<_, std::convert::Infallible>(())
    });
    let most = formats.into_iter().max_by_key(|(_, bytes)| *bytes);
    Kind::Model(most.map_or_else(String::new, |(format, _)| format))
}

/// Bytes of what lies in a folder.
fn files(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

/// What is in a folder, by name. One that is not there holds nothing.
///
/// # Errors
/// If it cannot be read.
pub(super) fn list(folder: &Path) -> Result<Vec<Stored>, Failure> {
    let folder = &std::path::absolute(folder).map_err(|error| failed(folder, &error))?;
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(folder, &error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(|error| failed(folder, &error))?.path());
    }
    paths.sort();
    Ok(paths.into_iter().filter_map(Stored::of).collect())
}

/// The path of the one that is meant: a name in `folder`, one that `pull` knows, or a path.
///
/// # Errors
/// If nothing is there.
pub(crate) fn find(folder: &Path, named: &str) -> Result<PathBuf, Failure> {
    let absolute = |path: &Path| std::path::absolute(path).map_err(|error| failed(path, &error));
    let folder = absolute(folder)?;
    let known = models::named(named).map(|model| model.file);
    let spellings = [known, Some(named.to_owned()), Some(format!("{named}.gguf"))];
    let within = spellings.into_iter().flatten();
    let within = within.map(|name| folder.join(name));
    let typed = absolute(Path::new(named))?;
    let mut places = within.chain([typed]);
    if let Some(path) = places.find(|path| path.exists()) {
        return Ok(path);
    }
    let here: Vec<_> = list(&folder)?.into_iter().map(|one| one.name).collect();
    let here = if here.is_empty() {
        "nothing".to_owned()
    } else {
        here.join(", ")
    };
    let message = format!(
        "{named:?} is no model here: {} holds {here}; sudo ganglionctl pull MODEL fetches one",
        folder.display()
    );
    Err(Failure::new(Exit::Data, message))
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("{}: {error}", path.display()))
}

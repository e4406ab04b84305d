//! The content of a folder of models: GGUF files, safetensors folders, and unfinished downloads.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ganglion::load::{LoadError, OpenModel};
use ganglion::model::checkpoint::{files_of, first_part};
use ganglion::model::{AssistantCheckpoint, Defect, ModelError};
use serde::Serialize;

use crate::doctor::Machine;
use crate::failure::{Exit, OrFail as _, Outcome, bail};
use crate::models;

/// The suffix of an unfinished download.
pub(super) const PART: &str = ".part";

/// A model in the folder. The keys are stable: scripts read them.
#[derive(Debug, Serialize)]
pub(super) struct Stored {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// The format of most of its weights; `None` for an unfinished or invalid model.
    format: Option<String>,
    /// "served", "configured", or nothing.
    pub(super) state: Option<&'static str>,
    /// "incomplete", or the reason why this release cannot run it.
    problem: Option<String>,
}

impl Stored {
    /// Opens it, if its name is that of a model.
    fn of(path: PathBuf) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy().into_owned();
        let metadata = fs::metadata(&path).ok()?;
        // The first part represents a split file.
        if first_part(&path).is_some_and(|first| first.exists()) {
            return None;
        }
        let is_gguf = |name: &str| {
            let end = Path::new(name).extension();
            end.is_some_and(|end| end.eq_ignore_ascii_case("gguf"))
        };
        let (bytes, is_model) = if metadata.is_dir() {
            let files = fs::read_dir(&path).into_iter().flatten().flatten();
            let lengths = files.map(|file| file.metadata().map_or(0, |file| file.len()));
            (lengths.sum(), path.join("config.json").exists())
        } else {
            let parts = files_of(&path).into_iter();
            let lengths = parts.map(|part| fs::metadata(part).map_or(0, |part| part.len()));
            (lengths.sum(), is_gguf(&name))
        };
        let is_part = name.strip_suffix(PART).is_some_and(is_gguf);
        let (format, problem) = match is_model.then(|| format(&path)) {
            _ if name.starts_with('.') => return None,
            Some(Ok(format)) => (Some(format), None),
            Some(Err(why)) => (None, Some(why)),
            None if is_part => (None, Some("incomplete".into())),
            None => return None,
        };
        Some(Self {
            name,
            path,
            bytes,
            format,
            state: None,
            problem,
        })
    }
}

/// Returns the format of most of its weights, or the reason why this release cannot run it.
fn format(path: &Path) -> Result<String, String> {
    let opened = match AssistantCheckpoint::open(path) {
        Ok(Some(assistant)) => Ok(assistant.checkpoint),
        Ok(None) => OpenModel::read(path, None).map(|opened| opened.checkpoint),
        Err(error) => Err(error.into()),
    };
    let checkpoint = opened.map_err(|error| match error {
        // The remedy in the full error is for the daemon's configuration.
        LoadError::Model(ModelError {
            defect: Defect::Io(why),
            ..
        }) => why.to_string(),
        LoadError::Model(error) if error.path == path => error.defect.to_string(),
        LoadError::Language { error, .. } => error.to_string(),
        error => error.to_string(),
    })?;
    let mut formats: BTreeMap<String, usize> = BTreeMap::new();
    let _ = checkpoint.tensors.try_map(|tensor| {
        *formats.entry(format!("{:?}", tensor.format)).or_default() += tensor.bytes();
        Ok::<_, std::convert::Infallible>(())
    });
    let most = formats.into_iter().max_by_key(|(_, bytes)| *bytes);
    Ok(most.map(|(format, _)| format).unwrap_or_default())
}

/// Lists a folder by name. A missing folder is empty.
pub(super) fn list(folder: &Path) -> Outcome<Vec<Stored>> {
    let shown = folder.display();
    let entries = match fs::read_dir(std::path::absolute(folder).or_fail(Exit::Failed, &shown)?) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.or_fail(Exit::Failed, &shown)?,
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let paths: io::Result<BTreeSet<_>> = paths.collect();
    let paths = paths.or_fail(Exit::Failed, &shown)?;
    Ok(paths.into_iter().filter_map(Stored::of).collect())
}

/// Returns the path of a model as the service sees it; `named` is a name in `folder`, one that `pull` knows, or a path.
pub(crate) fn find(machine: &Machine, folder: &Path, named: &str) -> Outcome<PathBuf> {
    let absolute = |path: &Path| std::path::absolute(path).or_fail(Exit::Failed, path.display());
    let folder = absolute(folder)?;
    let known = models::named(named).map(|model| model.file);
    let fetch = known.as_ref().map_or("MODEL", |_| named);
    let spellings = [named.to_owned(), format!("{named}.gguf")];
    let within = known.iter().chain(&spellings).map(|name| folder.join(name));
    let mut places: Vec<_> = within.chain([absolute(Path::new(named))?]).collect();
    if named.contains('/') {
        places.rotate_right(1);
    }
    let mut places = places.into_iter();
    if let Some(path) = places.find(|path| machine.outside(path).exists()) {
        return Ok(path);
    }
    let here = list(&machine.path(&folder))?.into_iter();
    let mut here: Vec<_> = here.map(|one| one.name).collect();
    if here.is_empty() {
        here.push("nothing".into());
    }
    bail!(
        Data: "{named:?} is not a model here: {} has {}; sudo ganglionctl pull {fetch} fetches one",
        folder.display(), here.join(", ")
    )
}

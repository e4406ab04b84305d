//! `ganglionctl models remove`: removes a model with its checksum and unfinished parts, unless it is served or
//! configured.
//!
//! As in `pull`, root becomes the owner of the folder first, all paths are relative to the opened folder, and no link
//! is followed.

use std::ffi::OsStr;
use std::path::{Component, Path};

use ganglion::model::checkpoint::files_of;

use super::listing::PART;
use super::paths::Paths;
use super::served::Active;
use crate::checksum::{RECORDED, with_suffix};
use crate::failure::{Exit, Failure, OrFail as _, Outcome, bail, ensure};
use crate::pull::folder::Folder;
use crate::{models, output};

pub(super) fn run(bus: Option<String>, named: &str, paths: &Paths) -> Outcome {
    let known = models::named(named).map(|model| model.file);
    let name = known.as_deref().unwrap_or(named);
    let mut parts = Path::new(name).components();
    let is_name = matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name);
    ensure!(
        is_name && !name.starts_with('.'),
        Usage: "{name:?} is not a name in the folder: give one that ganglionctl models lists"
    );
    let dir = std::path::absolute(&paths.dir).or_fail(Exit::Failed, paths.dir.display())?;
    // Root asks before it gives up its permissions.
    let active = Active::ask(bus, &paths.config);
    let path = dir.join(name);
    let shown = path.display();
    if let Some(state) = active.of(&path) {
        bail!(Failed: "{shown} is {state}: sudo ganglionctl use ANOTHER, then remove it");
    }
    if let Err(Failure { message, .. }) = active.served {
        bail!(Unavailable: "{shown}: it is unknown whether it is served: {message}");
    }

    let folder = Folder::existing(&dir)?;
    let is_part = name.ends_with(PART);
    let name = OsStr::new(name);
    let part = with_suffix(name, if is_part { "" } else { PART });
    ensure!(folder.has(name) || folder.has(&part), Data: "{shown} does not exist: see ganglionctl models");
    ensure!(!folder.is_locked(&part), Busy: "{shown} is being fetched by another ganglionctl");
    // The model goes first, so that an interruption leaves no seemingly whole model.
    let mut gone = vec![name.to_owned(), with_suffix(&part, ".etag")];
    if !is_part {
        gone.extend([part, with_suffix(name, RECORDED)]);
    }
    // All parts of a split file are the model.
    for later in files_of(&path)
        .iter()
        .skip(1)
        .filter_map(|part| part.file_name())
    {
        gone.extend([later.to_owned(), with_suffix(later, RECORDED)]);
    }
    for name in gone {
        folder.explain(&name, folder.remove_whole(&name))?;
    }
    output::note(&format!("{shown} was removed"));
    Ok(())
}

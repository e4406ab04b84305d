//! `ganglionctl models remove`: one model with what belongs to it, never the one that is in force.
//!
//! As `pull` puts it there: root becomes the owner of the folder before anything in it is touched, all is done below the
//! folder that was opened, and no link is followed.

use std::ffi::OsStr;
use std::path::{Component, Path};

use super::Place;
use super::listing::PART;
use super::served::InForce;
use crate::failure::{Exit, Failure};
use crate::pull::folder::{Folder, beside};
use crate::{models, output};

pub(super) fn run(bus: Option<String>, named: &str, place: &Place) -> Result<Exit, Failure> {
    let known = models::named(named).map(|model| model.file);
    let name = known.as_deref().unwrap_or(named);
    let mut parts = Path::new(name).components();
    let is_name = matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name);
    if !is_name || name.starts_with('.') {
        let message =
            format!("{name:?} is no name in the folder: give one that ganglionctl models lists");
        return Err(Failure::new(Exit::Usage, message));
    }
    let dir = std::path::absolute(&place.dir)
        .map_err(|error| Failure::new(Exit::Failed, format!("{}: {error}", place.dir.display())))?;
    // Before root gives up what lets it ask.
    let in_force = InForce::ask(bus, &place.config);
    let path = dir.join(name);
    let shown = path.display();
    match (in_force.of(&path), &in_force.unknown) {
        (Some(state), _) => {
            let message =
                format!("{shown} is {state}: sudo ganglionctl use ANOTHER, then remove it");
            return Err(Failure::new(Exit::Failed, message));
        }
        (None, Some(why)) => {
            let message = format!("{shown}: nobody knows whether it is served: {why}");
            return Err(Failure::new(Exit::Unavailable, message));
        }
        (None, None) => {}
    }

    let folder = Folder::existing(&dir)?;
    let name = OsStr::new(name);
    let whole = name.as_encoded_bytes().strip_suffix(PART.as_bytes());
    let part = match whole {
        Some(_) => name.to_owned(),
        None => beside(name, PART),
    };
    if !folder.has(name) && !folder.has(&part) {
        let message = format!("{shown} is not there: ganglionctl models lists what is");
        return Err(Failure::new(Exit::Data, message));
    }
    if folder.is_locked(&part) {
        let message = format!("{shown} is being fetched by another ganglionctl");
        return Err(Failure::new(Exit::Busy, message));
    }
    let mut gone = vec![part.clone(), beside(&part, ".etag")];
    if whole.is_none() {
        gone.push(beside(name, ".sha256"));
        // First: what is left if this is interrupted is no model any more.
        let removed = if folder.has_folder(name) {
            folder.remove_folder(name)
        } else {
            folder.remove(name)
        };
        removed.map_err(|error| folder.failed(name, &error))?;
    }
    for name in gone {
        folder
            .remove(&name)
            .map_err(|error| folder.failed(&name, &error))?;
    }
    output::tell(&format!("{shown} was removed"));
    Ok(Exit::Ok)
}

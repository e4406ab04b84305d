//! Images of a question: files whose descriptors the daemon reads.
//! Not here: their formats, which the daemon checks.

use std::fs::File;
use std::path::{Path, PathBuf};

use ganglion::bus::proxy::Fields;
use zbus::{Fd, Variant};

use crate::failure::{Exit, OrFail as _, Outcome, ensure};

/// An image, open for reading.
#[derive(Debug)]
pub(crate) struct Image {
    path: PathBuf,
    file: File,
}

impl Image {
    /// Opens a file; `~/` is the home folder.
    ///
    /// # Errors
    /// `Exit::Data` if it cannot be read, or is not a file.
    pub(crate) fn open(path: &Path) -> Outcome<Self> {
        let path = match (path.strip_prefix("~"), std::env::home_dir()) {
            (Ok(below), Some(home)) => home.join(below),
            _ => path.to_owned(),
        };
        // Opening a pipe would wait for its writer.
        let found = path.metadata().or_fail(Exit::Data, path.display())?;
        ensure!(found.is_file(), Data: "{}: it is not a file: give a JPEG, PNG or WebP file", path.display());
        let file = File::open(&path).or_fail(Exit::Data, path.display())?;
        Ok(Self { path, file })
    }

    /// The path that was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the image as a part of a message.
    fn part(&self) -> Outcome<Fields<'static>> {
        let file = self.file.try_clone();
        let file = file.or_fail(Exit::Failed, self.path.display())?;
        let file = Fd::Owned(file.into());
        Ok(Fields::from([("image", Variant::from(file))]))
    }
}

/// Returns the fields of a message with a text, after its images.
pub(crate) fn message(images: &[Image], text: String) -> Outcome<Fields<'static>> {
    if images.is_empty() {
        return Ok(Fields::from([("content", text.into())]));
    }
    let parts = images.iter().map(Image::part);
    let said = Fields::from([("text", text.into())]);
    let parts: Vec<_> = parts.chain([Ok(said)]).collect::<Outcome<_>>()?;
    Ok(Fields::from([("parts", parts.into())]))
}

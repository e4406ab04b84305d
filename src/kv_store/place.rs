//! The session of pages, and the path of their file: in the folder of the user, next to the session.

use std::path::{Path, PathBuf};

use crate::session_store::Name;

/// The file name extension of pages, and of a file that is being written.
pub(super) const PAGES: &str = "pages";
pub(super) const UNFINISHED: &str = "pages-new";

/// A session of a user.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    pub user: u32,
    pub name: Name,
}

impl Place {
    pub(super) fn folder(&self, root: &Path) -> PathBuf {
        root.join(self.user.to_string())
    }

    pub(super) fn path(&self, root: &Path) -> PathBuf {
        self.folder(root).join(format!("{}.{PAGES}", self.name))
    }

    /// The path of the file until it is complete.
    pub(super) fn unfinished(&self, root: &Path) -> PathBuf {
        self.folder(root)
            .join(format!("{}.{UNFINISHED}", self.name))
    }
}

//! Whose pages they are, and where they lie: in the folder of their user, beside the session that they are of.

use std::path::{Path, PathBuf};

use crate::session_store::Name;

/// The end of the name of a file with pages, and of one that is being written.
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

    /// Where it is until all of it is there.
    pub(super) fn unfinished(&self, root: &Path) -> PathBuf {
        self.folder(root)
            .join(format!("{}.{UNFINISHED}", self.name))
    }
}

//! What `setup` needs to know of the machine that it writes a configuration for.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ganglion::engine::Site;
use ganglion::engine::runner::Backend;
use nix::unistd::{Uid, User};

use super::board::Board;
use super::finding::{Finding, Findings};
use super::tree::Tree;
use super::unit::Unit;
use super::{assumed, driver, memory, model, nodes};
use crate::failure::{Outcome, failure};

/// This machine, or a folder that looks like one.
#[derive(Debug)]
pub(crate) struct Machine {
    tree: Tree,
    board: Board,
}

impl Machine {
    pub(crate) fn new(root: Option<&Path>) -> Self {
        let tree = Tree::new(root);
        let board = Board::read(&tree);
        Self { tree, board }
    }

    /// For people.
    pub(crate) fn name(&self) -> &str {
        &self.board.name
    }

    /// Whether it is this one.
    pub(crate) fn is_live(&self) -> bool {
        self.tree.is_live()
    }

    pub(crate) fn path(&self, absolute: &Path) -> PathBuf {
        self.tree.path(absolute)
    }

    /// Where a file lies that the service sees at `absolute`: the unit may show it a folder at another place.
    pub(crate) fn outside(&self, absolute: &Path) -> PathBuf {
        let outside = Unit::read(&self.tree).outside(absolute);
        self.tree.path(outside)
    }

    /// Why the service cannot read a file or a folder that is there, and what to do.
    pub(crate) fn hides(&self, path: &Path) -> Option<String> {
        let unit = Unit::read(&self.tree);
        let mut found = Findings::default();
        model::reach(&unit, path, &mut found);
        if let Some(hidden) = found.failed() {
            return Some(hidden.told());
        }
        // Only root can tell for another. What is shown to it elsewhere it reaches another way.
        if !self.is_live() || !Uid::effective().is_root() || unit.outside(path) != path {
            return None;
        }
        let user = User::from_name(unit.user()).ok().flatten()?;
        let mut test = Command::new("test");
        test.arg("-r").arg(path);
        test.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        if test.status().is_ok_and(|status| status.success()) {
            return None;
        }
        let (name, path) = (user.name, path.display());
        Some(format!(
            "user {name} cannot read {path}: let others pass through its folders (chmod o+x) and read it (chmod o+r)"
        ))
    }

    /// Bytes of memory that are available.
    pub(crate) fn available(&self) -> u64 {
        memory::mebibytes(&self.tree, "MemAvailable:").unwrap_or(0) << 20
    }

    /// Where a model will lie.
    ///
    /// # Errors
    /// If there is a GPU that cannot be used.
    pub(crate) fn site(&self, backend: Backend) -> Outcome<Site> {
        if !self.is_live() {
            return Ok(assumed(backend, self.board.is_jetson));
        }
        let expected = nodes::expected(&self.tree, self.board.is_jetson);
        let mut found = Findings::default();
        driver::open(backend, expected, &mut found).ok_or_else(|| {
            let why = found.failed().map(Finding::told).unwrap_or_default();
            failure!(Unavailable, "{why}; sudo ganglionctl doctor says more")
        })
    }
}

//! What `setup` needs to know of the machine that it writes a configuration for.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ganglion::config::Backend;
use ganglion::engine::Site;
use nix::unistd::{Uid, User};

use super::board::Board;
use super::finding::Mark;
use super::tree::Tree;
use super::unit::Unit;
use super::{assumed, driver, memory, model, nodes};
use crate::failure::{Exit, Failure};

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
        match self.board.name.as_str() {
            "" => std::env::consts::ARCH,
            name => name,
        }
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
        if let Some(hidden) = model::reach(&unit, path) {
            return Some(hidden.told());
        }
        // Only root can tell for another.
        let user = User::from_name(unit.user())
            .ok()
            .flatten()
            .filter(|_| self.is_live() && Uid::effective().is_root())
            // What is shown to it elsewhere it reaches another way.
            .filter(|_| unit.outside(path) == path)?;
        let test = Command::new("test")
            .arg("-r")
            .arg(path)
            .uid(user.uid.as_raw())
            .gid(user.gid.as_raw())
            .status();
        (!test.is_ok_and(|status| status.success())).then(|| {
            format!(
                "user {} cannot read {}: let others pass through its folders (chmod o+x) and read it (chmod o+r)",
                user.name,
                path.display()
            )
        })
    }

    /// Bytes of memory that are available.
    pub(crate) fn available(&self) -> u64 {
        let meminfo = self.tree.read("/proc/meminfo").unwrap_or_default();
        memory::mebibytes(&meminfo, "MemAvailable:").unwrap_or(0) << 20
    }

    /// Where a model will lie.
    ///
    /// # Errors
    /// If there is a GPU that cannot be used.
    pub(crate) fn site(&self, backend: Backend) -> Result<Site, Failure> {
        if !self.is_live() {
            return Ok(assumed(backend, self.board.is_jetson));
        }
        let expected = nodes::expected(&self.tree, self.board.is_jetson);
        let opened = driver::open(backend, expected);
        opened.site.ok_or_else(|| {
            let failed = opened
                .findings
                .into_iter()
                .find(|finding| finding.mark == Mark::Fail);
            let why = failed.map_or_else(String::new, |finding| finding.what);
            Failure::new(
                Exit::Unavailable,
                format!("{why}; sudo ganglionctl doctor says more"),
            )
        })
    }
}

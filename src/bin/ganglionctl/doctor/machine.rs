//! What `setup` needs to know of the machine that it writes a configuration for.

use std::path::{Path, PathBuf};

use ganglion::config::Backend;
use ganglion::engine::Site;

use super::board::Board;
use super::finding::Mark;
use super::tree::Tree;
use super::{assumed, driver, memory, nodes};
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

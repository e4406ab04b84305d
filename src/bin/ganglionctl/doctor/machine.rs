//! What `setup`, `use`, `pull` and `models` need to know of this machine, or of a folder that looks like one.

use std::cell::OnceCell;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ganglion::load::{Backend, ControlGroups, Target};
use ganglion::meminfo;
use nix::unistd::{Uid, User};

use super::board::Board;
use super::unit::Unit;
use super::{Findings, Tree, driver};
use crate::failure::{Outcome, failure};

#[derive(Debug)]
pub(crate) struct Machine {
    pub(super) tree: Tree,
    pub(super) board: Board,
    unit: OnceCell<Unit>,
}

impl Machine {
    pub(crate) fn new(root: Option<&Path>) -> Self {
        let tree = Tree::new(root);
        Self {
            board: Board::read(&tree),
            tree,
            unit: OnceCell::new(),
        }
    }

    /// The board's name, as people know it.
    pub(crate) fn name(&self) -> &str {
        &self.board.name
    }

    /// Whether it is this one, which can also be asked.
    pub(crate) fn is_live(&self) -> bool {
        self.tree.is_live()
    }

    pub(crate) fn path(&self, absolute: &Path) -> PathBuf {
        self.tree.path(absolute)
    }

    /// The service as systemd has it, asked once.
    pub(crate) fn unit(&self) -> &Unit {
        self.unit.get_or_init(|| Unit::read(&self.tree))
    }

    /// Where a file lies that the service sees at `absolute`: the unit may show it a folder at another place.
    pub(crate) fn outside(&self, absolute: &Path) -> PathBuf {
        self.tree.path(self.unit().outside(absolute))
    }

    /// Why the service cannot read a file or a folder that is there, and what to do.
    pub(crate) fn hides(&self, path: &Path) -> Option<String> {
        let unit = self.unit();
        if let Some((what, remedy)) = unit.hides(path) {
            return Some(format!("{what}; {remedy}"));
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

    /// The control groups that limit the service's memory.
    pub(crate) fn groups(&self) -> Option<ControlGroups> {
        let service = self.unit().group()?;
        Some(ControlGroups {
            mounted: self.tree.path("/sys/fs/cgroup"),
            service: Some(service),
            ..ControlGroups::default()
        })
    }

    /// A field of /proc/meminfo, in bytes.
    pub(crate) fn meminfo(&self, field: &str) -> Option<u64> {
        meminfo::bytes(&self.tree.text("/proc/meminfo"), field)
    }

    /// Where a model will lie.
    pub(crate) fn site(&self, backend: Backend) -> Outcome<Target> {
        if !self.is_live() {
            return Ok(self.assumed(backend));
        }
        let mut found = Findings::default();
        driver::open(backend, !self.nodes().is_empty(), &mut found).ok_or_else(|| {
            let why = found.failed().unwrap_or_default();
            failure!(Unavailable: "{why}; sudo ganglionctl doctor says more")
        })
    }

    /// Where a model lies if the driver does not say.
    pub(super) fn assumed(&self, backend: Backend) -> Target {
        match backend {
            Backend::Auto | Backend::Cuda if self.board.is_jetson => Target::Integrated,
            _ => Target::Cpu,
        }
    }
}

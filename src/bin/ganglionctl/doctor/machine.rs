//! Facts about this machine, or a folder with a copy of its files, for `setup`, `use`, `pull` and `models`.

use std::cell::OnceCell;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ganglion::load::{Backend, ControlGroups, Target};
use ganglion::meminfo;
use nix::unistd::{Uid, User};

use super::board::Board;
use super::driver;
use super::finding::Findings;
use super::tree::Tree;
use super::unit::{self, Unit};
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

    /// Returns the board's common name.
    pub(crate) fn name(&self) -> &str {
        &self.board.name
    }

    /// Whether it is the running machine.
    pub(crate) fn is_live(&self) -> bool {
        self.tree.is_live()
    }

    pub(crate) fn path(&self, absolute: &Path) -> PathBuf {
        self.tree.path(absolute)
    }

    /// Returns the service's settings, which systemd is asked for once.
    pub(crate) fn unit(&self) -> &Unit {
        self.unit.get_or_init(|| Unit::read(&self.tree))
    }

    /// Returns the real path of a file that the service sees at `absolute`: the unit may bind folders to other places.
    pub(crate) fn outside(&self, absolute: &Path) -> PathBuf {
        self.tree.path(self.unit().outside(absolute))
    }

    /// Returns the reason why the service cannot read an existing file or folder, and the remedy.
    pub(crate) fn hides(&self, path: &Path) -> Option<String> {
        let unit = self.unit();
        if let Some((what, remedy)) = unit.hides(path) {
            return Some(format!("{what}; {remedy}"));
        }
        // Only root can check access for another user. Bound folders are reached through another path.
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

    /// Returns the control groups that limit the service's memory.
    pub(crate) fn groups(&self) -> Option<ControlGroups> {
        let service = self.unit().group()?;
        Some(ControlGroups {
            mounted: self.tree.path("/sys/fs/cgroup"),
            service: Some(service),
            ..ControlGroups::default()
        })
    }

    /// Returns a field of /proc/meminfo, in bytes.
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

    /// Reads a file without surrounding white space; empty if that fails.
    pub(crate) fn text(&self, path: &str) -> String {
        self.tree.text(path)
    }

    /// Returns the release of Jetson Linux.
    pub(crate) fn release(&self) -> Option<&str> {
        self.board.release.as_deref()
    }

    /// Returns the devices that the unit allows; `None` if systemd does not know the unit.
    pub(crate) fn allowed_devices(&self) -> Option<Vec<String>> {
        unit::allowed_devices(&self.tree)
    }

    /// Returns a command that runs this program as the service's user within its sandbox.
    ///
    /// # Errors
    /// The reason why that is impossible here.
    pub(crate) fn command_inside(&self, properties: &[String]) -> Result<Command, String> {
        unit::command_inside(&self.tree, properties)
    }

    /// Where a model lies if the driver does not say.
    pub(super) fn assumed(&self, backend: Backend) -> Target {
        match backend {
            Backend::Auto | Backend::Cuda if self.board.is_jetson => Target::Integrated,
            _ => Target::Cpu,
        }
    }
}

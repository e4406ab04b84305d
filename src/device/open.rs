//! Finds out why a device cannot be opened: the device node, and the group that may open it.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::linux::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{Gid, Group, Uid, User};

use super::error::Error;
use crate::nodes::{self, DISCRETE, JETSON, Node, needed};

/// The first existing node that this process may not open.
pub(super) fn refused() -> Option<Error> {
    let is_jetson = JETSON[0].names.iter().any(|name| Path::new(name).exists());
    let nodes = if is_jetson { JETSON } else { DISCRETE };
    let refused = |node: &'static Node| {
        let name = node.names.iter().find(|name| is_refused(name.as_ref()))?;
        Some(Error::Permission {
            node: (*name).to_owned(),
            group: group(name.as_ref(), node),
            user: user(),
        })
    };
    nodes.iter().find_map(refused)
}

/// Whether this is a Jetson, according to its firmware, even if its drivers are not loaded.
#[must_use]
pub fn is_jetson() -> bool {
    let compatible = fs::read_to_string(nodes::COMPATIBLE);
    compatible.is_ok_and(|compatible| nodes::is_jetson(&compatible))
}

/// The path that exists on a Jetson even without device nodes.
const NVGPU: &str = "/sys/module/nvgpu";

/// The first missing node of a Jetson that CUDA needs.
pub(super) fn missing() -> Option<Error> {
    let exists = |path: &&str| Path::new(path).exists();
    if !exists(&NVGPU) && !JETSON[0].names.iter().any(exists) {
        return None;
    }
    // A node with different names in several releases may have yet another name.
    let lost = |node: &&Node| node.names.len() == 1 && !node.names.iter().any(exists);
    let node = JETSON.iter().find(lost)?;
    Some(Error::NoNode {
        node: node.names[0],
        remedy: node.remedy,
    })
}

fn is_refused(node: &Path) -> bool {
    let writes = node
        .metadata()
        .is_ok_and(|metadata| needed(metadata.st_mode()) & 0o2 != 0);
    let opened = OpenOptions::new().read(true).write(writes).open(node);
    opened.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

/// The group of a node, or the usual group on a Jetson if it belongs to root.
fn group(path: &Path, node: &Node) -> String {
    let id = path.metadata().map_or(0, |metadata| metadata.st_gid());
    let named = Group::from_gid(Gid::from_raw(id)).ok().flatten();
    match named {
        Some(group) if id != 0 => group.name,
        _ => node.group.into(),
    }
}

fn user() -> String {
    let id = Uid::effective();
    let named = User::from_uid(id).ok().flatten();
    named.map_or_else(|| id.to_string(), |user| user.name)
}

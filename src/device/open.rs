//! Finds out why a device cannot be opened: which device node, and which group opens it.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::linux::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{Gid, Group, Uid, User};

use super::Error;
use crate::nodes::{DISCRETE, JETSON, Node};

/// The first node that is there and that this process may not open.
pub(super) fn refused() -> Option<Error> {
    let is_jetson = JETSON[0].names.iter().any(|name| Path::new(name).exists());
    let nodes = if is_jetson { JETSON } else { DISCRETE };
    let mut names = nodes.iter().flat_map(|node| node.names).map(Path::new);
    let node = names.find(|node| is_refused(node))?;
    Some(Error::Permission {
        node: node.display().to_string(),
        group: group(node),
        user: user(),
    })
}

/// Where it is told that this is a Jetson, whatever nodes there are.
const NVGPU: &str = "/sys/module/nvgpu";

/// On a Jetson, the first node that is not there though CUDA needs it.
pub(super) fn missing() -> Option<Error> {
    let exists = |path: &&str| Path::new(path).exists();
    if !exists(&NVGPU) && !JETSON[0].names.iter().any(exists) {
        return None;
    }
    // What goes by other names on other releases may have another one yet.
    let lost = |node: &&Node| node.names.len() == 1 && !node.names.iter().any(exists);
    let node = JETSON.iter().find(lost)?;
    Some(Error::NoNode {
        node: node.names[0],
        remedy: node.remedy,
    })
}

fn is_refused(node: &Path) -> bool {
    // Some releases let the group only read /dev/nvmap.
    let writable = node
        .metadata()
        .is_ok_and(|metadata| metadata.st_mode() & 0o020 != 0);
    let opened = OpenOptions::new().read(true).write(writable).open(node);
    opened.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

/// The group that a node belongs to; where it is root's, the one that a Jetson would give it.
fn group(node: &Path) -> String {
    let id = node.metadata().map_or(0, |metadata| metadata.st_gid());
    let named = Group::from_gid(Gid::from_raw(id)).ok().flatten();
    match named {
        Some(group) if id != 0 => group.name,
        _ if node.starts_with("/dev/dri") => "render".into(),
        _ => "video".into(),
    }
}

fn user() -> String {
    let id = Uid::effective();
    let named = User::from_uid(id).ok().flatten();
    named.map_or_else(|| id.to_string(), |user| user.name)
}

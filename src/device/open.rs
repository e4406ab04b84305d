//! Finds out why a device cannot be opened: which device node, and which group opens it.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::linux::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{Gid, Group};

use super::Error;

/// What libcuda opens: on a Jetson, and on a discrete GPU.
const NODES: &[&str] = &[
    "/dev/nvmap",
    "/dev/nvgpu/igpu0/ctrl",
    "/dev/nvhost-ctrl-gpu",
    "/dev/nvhost-gpu",
    "/dev/dri/renderD128",
    "/dev/nvidiactl",
    "/dev/nvidia0",
    "/dev/nvidia-uvm",
];

/// The first node that is there and that this process may not open.
pub(super) fn refused() -> Option<Error> {
    NODES.iter().map(Path::new).find_map(|node| {
        let opened: std::io::Result<File> = OpenOptions::new().read(true).write(true).open(node);
        let refused = opened.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
        refused.then(|| Error::Permission {
            node: node.display().to_string(),
            group: group(node),
        })
    })
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

//! Finds out why a device cannot be opened: which device node, and which group opens it.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::linux::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{Gid, Group, Uid, User};

use super::Error;

/// What libcuda opens on a Jetson, and on a machine with a discrete GPU. The render node is another GPU's there.
const JETSON: &[&str] = &[
    "/dev/nvmap",
    "/dev/nvgpu/igpu0/ctrl",
    "/dev/nvhost-ctrl-gpu",
    "/dev/nvhost-gpu",
    "/dev/dri/renderD128",
    "/dev/host1x-fence",
];
const DISCRETE: &[&str] = &["/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm"];

/// The first node that is there and that this process may not open.
pub(super) fn refused() -> Option<Error> {
    let nodes = if Path::new(JETSON[0]).exists() {
        JETSON
    } else {
        DISCRETE
    };
    let node = nodes.iter().map(Path::new).find(|node| is_refused(node))?;
    Some(Error::Permission {
        node: node.display().to_string(),
        group: group(node),
        user: user(),
    })
}

/// Where it is told that this is a Jetson, whatever nodes there are.
const NVGPU: &str = "/sys/module/nvgpu";

/// Nodes without which CUDA does not start, and what brings them back.
const NEEDED: &[(&str, &str)] = &[
    (
        "/dev/nvmap",
        "`sudo modprobe nvmap`, and see `sudo dmesg | grep nvmap`",
    ),
    (
        "/dev/dri/renderD128",
        "the render node comes with the display driver: `sudo modprobe nvidia-drm` or `tegra-drm`, or pass it into \
         this container",
    ),
    (
        "/dev/host1x-fence",
        "`sudo modprobe host1x-fence`, and for every start: echo host1x-fence | sudo tee \
         /etc/modules-load.d/host1x-fence.conf",
    ),
];

/// On a Jetson, the first node that is not there though CUDA needs it.
pub(super) fn missing() -> Option<Error> {
    if ![NVGPU, JETSON[0]]
        .iter()
        .any(|path| Path::new(path).exists())
    {
        return None;
    }
    let lost = |(node, _): &&(&str, &str)| !Path::new(node).exists();
    let (node, remedy) = NEEDED.iter().find(lost)?;
    Some(Error::NoNode { node, remedy })
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

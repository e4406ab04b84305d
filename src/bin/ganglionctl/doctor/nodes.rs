//! The device nodes that CUDA opens, and who may open them.

use std::fs::OpenOptions;
use std::io;

use nix::errno::Errno;

use super::account::Account;
use super::finding::Finding;
use super::tree::Tree;

const CHECK: &str = "device nodes";

/// One that CUDA needs: by the first of these names that is there.
struct Node {
    names: &'static [&'static str],
    group: &'static str,
    /// What brings it back.
    remedy: &'static str,
}

/// What CUDA opens on an Orin, in its order.
const JETSON: &[Node] = &[
    Node {
        names: &["/dev/nvmap"],
        group: "video",
        remedy: "sudo modprobe nvmap; in a container, pass it in",
    },
    Node {
        names: &["/dev/nvgpu/igpu0/ctrl", "/dev/nvhost-ctrl-gpu"],
        group: "video",
        remedy: "sudo modprobe nvgpu; see sudo dmesg | grep nvgpu",
    },
    Node {
        names: &["/dev/dri/renderD128"],
        group: "render",
        remedy: "CUDA does not start without the render node (cuInit 801): sudo modprobe nvidia-drm (JetPack 6) or \
                 tegra-drm; in a container, pass /dev/dri in",
    },
    Node {
        names: &["/dev/host1x-fence"],
        group: "video",
        remedy: "sudo modprobe host1x-fence; for every start: echo host1x-fence | sudo tee \
                 /etc/modules-load.d/host1x-fence.conf",
    },
];

const DISCRETE: &[Node] = &[
    Node {
        names: &["/dev/nvidiactl"],
        group: "video",
        remedy: "sudo modprobe nvidia",
    },
    Node {
        names: &["/dev/nvidia0"],
        group: "video",
        remedy: "sudo nvidia-modprobe",
    },
    Node {
        names: &["/dev/nvidia-uvm"],
        group: "video",
        remedy: "sudo nvidia-modprobe -u",
    },
];

/// Those of this machine; none if it has no NVIDIA GPU.
fn needed(tree: &Tree, is_jetson: bool) -> &'static [Node] {
    if is_jetson {
        JETSON
    } else if tree.rights("/dev/nvidiactl").is_some() {
        DISCRETE
    } else {
        &[]
    }
}

/// Whether there is a GPU that CUDA could use.
pub(super) fn expected(tree: &Tree, is_jetson: bool) -> bool {
    !needed(tree, is_jetson).is_empty()
}

/// What the rights of the nodes say of `account`, without opening any.
pub(super) fn check(tree: &Tree, is_jetson: bool, account: &Account) -> Vec<Finding> {
    let user = &account.user;
    report(tree, is_jetson, user, |path, node| {
        let rights = tree.rights(path)?;
        if account.may_use(&rights) {
            return None;
        }
        let owned = &rights.group;
        let group = if owned == "root" { node.group } else { owned };
        let mode = rights.mode;
        Some(Finding::fail(
            CHECK,
            format!("{path} (mode {mode:04o}, group {owned}) is closed to {user}"),
            format!(
                "sudo usermod -aG {group} {user}, and for the service SupplementaryGroups={group}"
            ),
        ))
    })
}

/// Opens them, as whoever runs this: within a unit, its device rules hold too.
pub(super) fn open(tree: &Tree, is_jetson: bool, account: &Account) -> Vec<Finding> {
    let user = &account.user;
    report(tree, is_jetson, user, |path, node| {
        let group_may_write = tree
            .rights(path)
            .is_some_and(|rights| rights.mode & 0o020 != 0);
        let opened = OpenOptions::new()
            .read(true)
            .write(group_may_write)
            .open(tree.path(path));
        let error = opened.err()?;
        let remedy = match error.raw_os_error().map(Errno::from_raw) {
            // What a unit's device rules answer; modes answer EACCES.
            Some(Errno::EPERM) => {
                format!(
                    "the unit does not allow it: sudo systemctl edit gangliond, [Service], DeviceAllow={path} rw"
                )
            }
            Some(Errno::EACCES) => {
                let group = node.group;
                format!(
                    "sudo usermod -aG {group} {user}, and for the service SupplementaryGroups={group}"
                )
            }
            _ => node.remedy.into(),
        };
        Some(Finding::fail(
            CHECK,
            format!("{path} is closed to {user}: {}", reason(&error)),
            remedy,
        ))
    })
}

/// Without "(os error 13)".
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_lowercase()
}

/// A line for each node that is missing or that `closed` finds closed, or one that all are open.
fn report(
    tree: &Tree,
    is_jetson: bool,
    user: &str,
    closed: impl Fn(&str, &Node) -> Option<Finding>,
) -> Vec<Finding> {
    let needed = needed(tree, is_jetson);
    if needed.is_empty() {
        return vec![Finding::ok(
            CHECK,
            "none of an NVIDIA GPU: the CPU computes here",
        )];
    }
    let mut wrong = Vec::new();
    for node in needed {
        let there = node.names.iter().find(|name| tree.rights(name).is_some());
        match there {
            None => {
                let what = format!("{} is missing", node.names[0]);
                wrong.push(Finding::fail(CHECK, what, node.remedy));
            }
            Some(path) => wrong.extend(closed(path, node)),
        }
    }
    if wrong.is_empty() {
        let names: Vec<_> = needed.iter().map(|node| node.names[0]).collect();
        let what = format!("{} are open to {user}", names.join(", "));
        return vec![Finding::ok(CHECK, what)];
    }
    wrong
}

//! The device nodes that CUDA opens, and who may open them.

use std::fs::OpenOptions;

use ganglion::nodes::{DISCRETE, JETSON, Node};
use nix::errno::Errno;

use super::account::Account;
use super::finding::Findings;
use super::tree::Tree;

const CHECK: &str = "device nodes";

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

/// Why a node is closed, and what opens it.
type Closed = (String, String);

/// What the rights of the nodes say of `account`, without opening any.
pub(super) fn check(tree: &Tree, is_jetson: bool, account: &Account, found: &mut Findings) {
    let user = &account.user;
    report(tree, is_jetson, user, found, |path, node| {
        let rights = tree.rights(path)?;
        if account.may_use(&rights) {
            return None;
        }
        let (mode, owned) = (rights.mode, &rights.group);
        let group = if owned == "root" { node.group } else { owned };
        let what = format!("{path} (mode {mode:04o}, group {owned}) is closed to {user}");
        Some((what, join(user, group)))
    });
}

/// Opens them, as whoever runs this: within a unit, its device rules hold too.
pub(super) fn open(tree: &Tree, is_jetson: bool, account: &Account, found: &mut Findings) {
    let user = &account.user;
    report(tree, is_jetson, user, found, |path, node| {
        let may_write = |mode| mode & 0o020 != 0;
        let writes = tree
            .rights(path)
            .is_some_and(|rights| may_write(rights.mode));
        let mut options = OpenOptions::new();
        let opened = options.read(true).write(writes).open(tree.path(path));
        let errno = Errno::from_raw(opened.err()?.raw_os_error()?);
        let remedy = match errno {
            // What a unit's device rules answer; modes answer EACCES.
            Errno::EPERM => format!(
                "the unit does not allow it: sudo systemctl edit gangliond, [Service], DeviceAllow={path} rw"
            ),
            Errno::EACCES => join(user, node.group),
            _ => node.remedy.into(),
        };
        let why = errno.desc().to_lowercase();
        Some((format!("{path} is closed to {user}: {why}"), remedy))
    });
}

fn join(user: &str, group: &str) -> String {
    format!("sudo usermod -aG {group} {user}, and for the service SupplementaryGroups={group}")
}

/// A line for each node that is missing or that `closed` finds closed, or one that all are open.
fn report(
    tree: &Tree,
    is_jetson: bool,
    user: &str,
    found: &mut Findings,
    closed: impl Fn(&str, &Node) -> Option<Closed>,
) {
    let needed = needed(tree, is_jetson);
    if needed.is_empty() {
        return found.ok(CHECK, "none of an NVIDIA GPU: the CPU computes here");
    }
    let mut all_open = true;
    for node in needed {
        let there = node.names.iter().find(|name| tree.rights(name).is_some());
        let wrong = match there {
            None => Some((format!("{} is missing", node.names[0]), node.remedy.into())),
            Some(path) => closed(path, node),
        };
        if let Some((what, remedy)) = wrong {
            all_open = false;
            found.fail(CHECK, what, remedy);
        }
    }
    if all_open {
        let names: Vec<_> = needed.iter().map(|node| node.names[0]).collect();
        found.ok(CHECK, format!("{} are open to {user}", names.join(", ")));
    }
}

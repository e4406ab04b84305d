//! Checks of the device nodes and their permissions.

use std::fs::OpenOptions;

use ganglion::nodes::{DISCRETE, JETSON, Node, needed};
use nix::errno::Errno;

use super::account::Account;
use super::finding::Findings;
use super::machine::Machine;

const NODES: &str = "device nodes";

impl Machine {
    /// Returns the nodes that CUDA opens here; none without an NVIDIA GPU.
    pub(crate) fn nodes(&self) -> &'static [Node] {
        if self.board.is_jetson {
            JETSON
        } else if self.tree.rights("/dev/nvidiactl").is_some() {
            DISCRETE
        } else {
            &[]
        }
    }

    /// Checks the permissions of the nodes for `account`, without opening any.
    pub(super) fn check_nodes(&self, account: &Account, found: &mut Findings) {
        let user = &account.user;
        self.report_nodes(user, found, |path, node| {
            let rights = self.tree.rights(path)?;
            if account.may_use(&rights) {
                return None;
            }
            let (mode, owned) = (rights.mode, &rights.group);
            let group = if owned == "root" { node.group } else { owned };
            let what = format!("{path} (mode {mode:04o}, group {owned}) is closed to {user}");
            Some((what, join(user, group)))
        });
    }

    /// Opens the nodes as the present user. Within a unit, its device rules apply too.
    pub(super) fn open_nodes(&self, user: &str, found: &mut Findings) {
        self.report_nodes(user, found, |path, node| {
            let rights = self.tree.rights(path);
            let writes = rights.is_some_and(|rights| needed(rights.mode) & 0o2 != 0);
            let mut options = OpenOptions::new();
            let opened = options.read(true).write(writes).open(self.tree.path(path));
            let errno = Errno::from_raw(opened.err()?.raw_os_error()?);
            let remedy = match errno {
                // A unit's device rules cause EPERM; permissions cause EACCES.
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

    /// Reports each node that is missing or that `closed` describes, with the remedy, or else that all are accessible.
    fn report_nodes(
        &self,
        user: &str,
        found: &mut Findings,
        closed: impl Fn(&str, &Node) -> Option<(String, String)>,
    ) {
        let nodes = self.nodes();
        if nodes.is_empty() {
            return found.ok(NODES, "there is no NVIDIA GPU: the CPU backend is used");
        }
        let wrong = nodes.iter().filter_map(|node| {
            let is_there = |name: &&&str| self.tree.rights(name).is_some();
            match node.names.iter().find(is_there) {
                None => Some((format!("{} is missing", node.names[0]), node.remedy.into())),
                Some(path) => closed(path, node),
            }
        });
        let wrong: Vec<_> = wrong.collect();
        if wrong.is_empty() {
            let names: Vec<_> = nodes.iter().map(|node| node.names[0]).collect();
            found.ok(NODES, format!("{} are open to {user}", names.join(", ")));
        }
        for (what, remedy) in wrong {
            found.fail(NODES, what, remedy);
        }
    }
}

fn join(user: &str, group: &str) -> String {
    format!("sudo usermod -aG {group} {user}, and for the service SupplementaryGroups={group}")
}

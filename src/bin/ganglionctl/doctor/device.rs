//! The device: its nodes, whoever they are to be open to, and the driver with the kernels for its GPU.

use std::collections::BTreeSet;
use std::fs::OpenOptions;

use ganglion::engine::Site;
use ganglion::engine::runner::Backend;
use ganglion::nodes::{DISCRETE, JETSON, Node};
use nix::errno::Errno;
use nix::unistd::Uid;

use super::finding::Findings;
use super::machine::Machine;
use super::tree::{Rights, Tree};
use crate::client::membership;

const NODES: &str = "device nodes";
const DRIVER: &str = "driver";

/// Whoever the device's nodes are to be open to: a user and its groups, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) user: String,
    pub(super) groups: BTreeSet<String>,
}

impl Account {
    /// The user of that name with the groups that the machine gives it, and `more`; nothing if there is none.
    pub(super) fn find(tree: &Tree, user: &str, more: &str) -> Option<Self> {
        let users = tree.records("/etc/passwd");
        let primary = users.iter().find(|fields| fields[0] == user)?.get(3)?;
        let mut groups: BTreeSet<_> = more.split_whitespace().map(str::to_owned).collect();
        for fields in tree.records("/etc/group") {
            if let [name, _, id, members] = &fields[..]
                && (id == primary || members.split(',').any(|member| member == user))
            {
                groups.insert(name.clone());
            }
        }
        Some(Self {
            user: user.into(),
            groups,
        })
    }

    /// Whoever runs this.
    pub(super) fn caller(tree: &Tree) -> Self {
        let user = membership::name(Uid::effective());
        let groups = BTreeSet::new();
        Self::find(tree, &user, "").unwrap_or(Self { user, groups })
    }

    /// Whether it may do with a file what the file's group may.
    fn may_use(&self, Rights { mode, owner, group }: &Rights) -> bool {
        // Some releases let the group only read /dev/nvmap.
        let needed = (mode >> 3 & 0o6).max(0o4);
        let granted = match &self.user {
            root if root == "root" => 0o6,
            user if user == owner => mode >> 6,
            _ if self.groups.contains(group) => mode >> 3,
            _ => *mode,
        };
        granted & needed == needed
    }
}

impl Machine {
    /// The nodes that CUDA opens here; none if there is no NVIDIA GPU.
    pub(super) fn nodes(&self) -> &'static [Node] {
        if self.board.is_jetson {
            JETSON
        } else if self.tree.rights("/dev/nvidiactl").is_some() {
            DISCRETE
        } else {
            &[]
        }
    }

    /// What the rights of the nodes say of `account`, without opening any.
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

    /// Opens them, as whoever runs this: within a unit, its device rules hold too.
    pub(super) fn open_nodes(&self, user: &str, found: &mut Findings) {
        self.report_nodes(user, found, |path, node| {
            let rights = self.tree.rights(path);
            let writes = rights.is_some_and(|rights| rights.mode & 0o020 != 0);
            let mut options = OpenOptions::new();
            let opened = options.read(true).write(writes).open(self.tree.path(path));
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

    /// A line for each node that is missing or that `closed` finds closed, with what opens it, or one that all are open.
    fn report_nodes(
        &self,
        user: &str,
        found: &mut Findings,
        closed: impl Fn(&str, &Node) -> Option<(String, String)>,
    ) {
        let nodes = self.nodes();
        if nodes.is_empty() {
            return found.ok(NODES, "none of an NVIDIA GPU: the CPU computes here");
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

/// Opens the device as the daemon does, and tells where a model would lie with it; nothing if there is a GPU that cannot
/// be used. `expected` says that there is a GPU that should work.
#[cfg(feature = "cuda")]
pub(super) fn open(backend: Backend, expected: bool, found: &mut Findings) -> Option<Site> {
    use ganglion::cuda::{Device, Error};

    if backend == Backend::Cpu {
        found.ok(
            DRIVER,
            "not asked: the configuration says backend = \"cpu\"",
        );
        return Some(Site::Cpu);
    }
    let needed = expected || backend == Backend::Cuda;
    let device = match Device::open(false) {
        Ok(device) => device,
        // A machine without one lacks nothing: what would bring a driver is for those that have a GPU.
        Err(Error::NoDriver | Error::NoDevice) if !needed => {
            let what = "none is needed: there is no NVIDIA GPU, and the CPU computes";
            found.ok(DRIVER, what);
            return Some(Site::Cpu);
        }
        Err(error) => {
            let of_kernels = matches!(error, Error::NoImage { .. } | Error::NoKernels);
            found.error(if of_kernels { "kernels" } else { DRIVER }, error);
            return None;
        }
    };
    let of = device.properties();
    let (major, minor) = of.capability;
    let memory = if of.integrated {
        "shared with the CPU"
    } else {
        "its own"
    };
    let what = format!(
        "CUDA {}.{}, {}, compute capability {major}.{minor}, {} MiB of memory, {memory}",
        of.driver / 1000,
        of.driver % 1000 / 10,
        of.name,
        of.memory >> 20,
    );
    found.ok(DRIVER, what);
    let kernels = device.kernels();
    let what = format!("the {kernels} was loaded");
    if kernels.contains("PTX") && (major, minor) != (8, 7) {
        let remedy =
            "the driver compiles it at each start: a build with kernels for this GPU starts faster";
        found.warn("kernels", what, remedy);
    } else {
        found.ok("kernels", what);
    }
    if of.integrated {
        return Some(Site::Integrated);
    }
    let free = device.free_memory();
    free.map(Site::Discrete)
        .map_err(|error| found.error(DRIVER, error))
        .ok()
}

#[cfg(not(feature = "cuda"))]
pub(super) fn open(backend: Backend, expected: bool, found: &mut Findings) -> Option<Site> {
    let what = "this build has no CUDA backend";
    let remedy = "install a build with it, or set backend = \"cpu\"";
    match backend {
        Backend::Cuda => {
            found.fail(DRIVER, what, remedy);
            return None;
        }
        Backend::Auto if expected => found.warn(DRIVER, what, remedy),
        _ => found.ok(DRIVER, what),
    }
    Some(Site::Cpu)
}

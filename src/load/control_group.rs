//! The memory that the control groups of this process leave to it. The kernel kills a process that exceeds their limits.
//!
//! A limit that does not exist or cannot be read is no error: it counts as no limit.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// Where the kernel publishes control groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlGroups {
    /// The file with the groups of this process.
    pub own: PathBuf,
    /// The folder of all groups.
    pub mounted: PathBuf,
    /// The group of a service, which replaces the groups of this process.
    pub service: Option<ServiceGroup>,
}

/// The group of a service, which may not be running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceGroup {
    /// Its path below the folder of all groups.
    pub path: PathBuf,
    /// The files and values of the limits that the service has when it runs.
    pub limits: Vec<(&'static str, u64)>,
}

impl Default for ControlGroups {
    fn default() -> Self {
        Self {
            own: "/proc/self/cgroup".into(),
            mounted: "/sys/fs/cgroup".into(),
            service: None,
        }
    }
}

/// The rest of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) bytes: u64,
    /// The file of the limit.
    pub(crate) file: PathBuf,
}

/// The files of one version of the kernel's interface.
struct Version {
    /// The controllers in a group's line, before its path.
    controllers: &'static str,
    /// The folder below that of all groups.
    folder: &'static str,
    limits: &'static [&'static str],
    current: &'static str,
    /// The field of memory.stat with the memory that the kernel reclaims before it kills a process.
    reclaimable: &'static str,
}

const VERSIONS: [Version; 2] = [
    Version {
        controllers: "",
        folder: "",
        limits: &["memory.max", "memory.high"],
        current: "memory.current",
        reclaimable: "inactive_file",
    },
    // Debian 11 and JetPack 6.2 can be started with this version.
    Version {
        controllers: "memory",
        folder: "memory",
        limits: &["memory.limit_in_bytes"],
        current: "memory.usage_in_bytes",
        reclaimable: "total_inactive_file",
    },
];

impl ControlGroups {
    /// Returns the limit of which the least is left, of the groups and their parents; `None` if there is none.
    pub(crate) fn left(&self) -> Option<Left> {
        match &self.service {
            None => self.left_to_process(),
            Some(service) => self.left_to_service(service),
        }
    }

    fn left_to_service(&self, service: &ServiceGroup) -> Option<Left> {
        let path = relative(&service.path);
        // A group that does not exist yet uses nothing.
        let own = self.mounted.join(&path);
        let limits = service.limits.iter().map(|(file, bytes)| Left {
            bytes: *bytes,
            file: own.join(file),
        });
        let around = VERSIONS.iter().flat_map(|version| {
            let mounted = self.mounted.join(version.folder);
            let groups: Vec<_> = path.ancestors().map(|group| mounted.join(group)).collect();
            groups.into_iter().flat_map(|group| version.left(&group))
        });
        let mut folders = VERSIONS.iter().map(|version| version.folder);
        let is_there = folders.any(|folder| self.mounted.join(folder).join(&path).exists());
        let limits = limits.filter(|_| !is_there);
        limits.chain(around).min_by_key(|left| left.bytes)
    }

    fn left_to_process(&self) -> Option<Left> {
        let own = fs::read_to_string(&self.own).ok()?;
        let groups = own.lines().filter_map(|line| {
            // The fields are number, controllers, path.
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let of = |version: &&Version| {
                controllers
                    .split(',')
                    .any(|name| name == version.controllers)
            };
            Some((VERSIONS.iter().find(of)?, Path::new(path)))
        });
        let limits = groups.flat_map(|(version, path)| {
            let mounted = self.mounted.join(version.folder);
            let group = relative(path);
            let all: Vec<_> = group.ancestors().map(|group| mounted.join(group)).collect();
            all.into_iter().flat_map(|group| version.left(&group))
        });
        limits.min_by_key(|left| left.bytes)
    }
}

/// Returns a group's path without components that lead out of the folder of all groups.
fn relative(path: &Path) -> PathBuf {
    let normal = path
        .components()
        .filter(|part| matches!(part, Component::Normal(_)));
    normal.collect()
}

impl Version {
    /// Returns the rest of each limit of one group.
    fn left(&self, group: &Path) -> Vec<Left> {
        let number = |file: &str| {
            let text = fs::read_to_string(group.join(file)).ok()?;
            text.trim().parse::<u64>().ok()
        };
        let Some(current) = number(self.current) else {
            return Vec::new();
        };
        let statistics = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
        let reclaimable = statistics
            .lines()
            .filter_map(|line| line.split_once(' '))
            .find(|(name, _)| *name == self.reclaimable)
            .and_then(|(_, bytes)| bytes.trim().parse().ok())
            .unwrap_or(0);
        let taken = current.saturating_sub(reclaimable);
        let limits = self.limits.iter();
        // An unset limit is a word, or a huge number.
        let left = limits.filter_map(|file| {
            Some(Left {
                bytes: number(file)?.saturating_sub(taken),
                file: group.join(file),
            })
        });
        left.collect()
    }
}

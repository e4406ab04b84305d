//! The service as systemd has it: its state, its drop-ins, and what of it the device checks need.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::account::Account;
use super::finding::Findings;
use super::tree::Tree;

pub(super) const NAME: &str = "gangliond.service";
const CHECK: &str = "unit";

/// What `systemctl show` is asked for.
const PROPERTIES: &str = "LoadState,ActiveState,SubState,UnitFileState,Result,ExecMainStatus,NRestarts,StatusText,\
    FragmentPath,DropInPaths,NeedDaemonReload,User,SupplementaryGroups,ProtectHome,PrivateTmp,BindPaths,\
    BindReadOnlyPaths,InaccessiblePaths";

/// Folders that a setting takes away from the service.
const HIDDEN_BY: &[(&str, &[&str])] = &[
    ("ProtectHome", &["/home", "/root", "/run/user"]),
    ("PrivateTmp", &["/tmp", "/var/tmp"]),
];

/// Empty where systemd does not run or does not know the unit.
#[derive(Debug, Default)]
pub(super) struct Unit {
    properties: BTreeMap<String, String>,
}

impl Unit {
    pub(super) fn read(tree: &Tree) -> Self {
        let show = format!("systemctl show {NAME} --no-pager -p {PROPERTIES}");
        let shown = tree.command("systemctl-show", &show).unwrap_or_default();
        let lines = shown.lines().filter_map(|line| line.split_once('='));
        let properties = lines.map(|(key, value)| (key.into(), value.into()));
        Self {
            properties: properties.collect(),
        }
    }

    fn get(&self, key: &str) -> &str {
        self.properties.get(key).map_or("", String::as_str)
    }

    /// Whether systemd has it.
    pub(super) fn is_known(&self) -> bool {
        self.get("LoadState") == "loaded"
    }

    /// Whom the service runs as; nothing if there is no such user.
    pub(super) fn account(&self, tree: &Tree) -> Option<Account> {
        Account::find(tree, self.user(), self.get("SupplementaryGroups"))
    }

    pub(super) fn user(&self) -> &str {
        match self.get("User") {
            "" if self.is_known() => "root",
            "" => "ganglion",
            user => user,
        }
    }

    /// Paths that the service sees, each with where it is outside.
    fn binds(&self) -> impl Iterator<Item = (&Path, &Path)> {
        let paths = ["BindPaths", "BindReadOnlyPaths"].map(|key| self.get(key).split_whitespace());
        paths.into_iter().flatten().map(|bound| {
            let mut parts = bound.trim_start_matches('-').split(':');
            let outside = parts.next().unwrap_or_default();
            let inside = parts.next().unwrap_or(outside);
            (Path::new(outside), Path::new(inside))
        })
    }

    /// Where a path that the service sees is for others.
    pub(super) fn outside(&self, path: &Path) -> PathBuf {
        let bound = self.binds().find_map(|(outside, inside)| {
            let below = path.strip_prefix(inside).ok()?;
            Some(outside.join(below))
        });
        bound.unwrap_or_else(|| path.into())
    }

    /// The setting that hides `path` from the service.
    pub(super) fn hides(&self, path: &Path) -> Option<&'static str> {
        if self.binds().any(|(_, inside)| path.starts_with(inside)) {
            return None;
        }
        let hiding = HIDDEN_BY.iter().find(|(key, folders)| {
            let open = ["", "no", "read-only"].contains(&self.get(key));
            !open && folders.iter().any(|folder| path.starts_with(folder))
        });
        let mut listed = self.get("InaccessiblePaths").split_whitespace();
        let listed = listed.any(|one| path.starts_with(one.trim_start_matches(['-', '+'])));
        let hiding = hiding.map(|(key, _)| *key);
        hiding.or(listed.then_some("InaccessiblePaths"))
    }

    pub(super) fn check(&self, tree: &Tree, found: &mut Findings) {
        if self.properties.is_empty() {
            let remedy = "the daemon can be started by hand: gangliond --config FILE";
            return found.warn(CHECK, "systemd does not run here", remedy);
        }
        if !self.is_known() {
            let what = format!("systemd does not know {NAME} ({})", self.get("LoadState"));
            let remedy = "install the package, or make install and sudo systemctl daemon-reload";
            return found.fail(CHECK, what, remedy);
        }
        self.state(found);
        if self.get("NeedDaemonReload") == "yes" {
            let what = "files have changed since systemd read them";
            found.warn(CHECK, what, "sudo systemctl daemon-reload");
        }
        let drop_ins = self.get("DropInPaths");
        // For the report.
        for file in drop_ins
            .split_whitespace()
            .chain([self.get("FragmentPath")])
        {
            let _ = tree.read(file);
        }
        let listed = if drop_ins.is_empty() {
            "none"
        } else {
            drop_ins
        };
        found.ok("drop-ins", listed);
        if self.account(tree).is_none() {
            let what = format!("there is no user {}", self.user());
            found.fail(CHECK, what, "sudo systemd-sysusers");
        }
    }

    fn state(&self, found: &mut Findings) {
        let (active, sub) = (self.get("ActiveState"), self.get("SubState"));
        let mut what = format!("{active} ({sub})");
        let restarts = self.get("NRestarts");
        let restarted = !["", "0"].contains(&restarts);
        if restarted {
            what = format!("{what}, restarted {restarts} times");
        }
        let status = match self.get("StatusText") {
            "" => what.clone(),
            text => format!("{what}: {text}"),
        };
        match active {
            "active" | "reloading" if restarted => {
                found.warn(CHECK, status, "journalctl -xeu gangliond says why");
            }
            "active" | "reloading" => found.ok(CHECK, status),
            "failed" => {
                let (result, code) = (self.get("Result"), self.get("ExecMainStatus"));
                let remedy = match code {
                    "78" => {
                        "the configuration or the model cannot be used: see below, and journalctl -xeu gangliond"
                    }
                    _ => {
                        "journalctl -xeu gangliond says why; then sudo systemctl reset-failed gangliond and start it"
                    }
                };
                let what = format!("{what}, result {result}, exit status {code}");
                found.fail(CHECK, what, remedy);
            }
            "inactive" => {
                let enabled = self.get("UnitFileState");
                let what = format!("{what}, {enabled}; the first call starts it");
                found.warn(CHECK, what, "sudo systemctl enable --now gangliond");
            }
            _ => found.warn(CHECK, status, "wait, then look again"),
        }
    }
}

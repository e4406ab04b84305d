//! The service as systemd has it: its state, its drop-ins, and what of it the device checks need.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::account::Account;
use super::finding::Finding;
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
        let show = ["systemctl", "show", NAME, "--no-pager", "-p", PROPERTIES];
        let shown = tree.command("systemctl-show", &show).unwrap_or_default();
        let lines = shown.lines().filter_map(|line| line.split_once('='));
        Self {
            properties: lines
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
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
        let words = self.get("SupplementaryGroups").split_whitespace();
        let groups: Vec<_> = words.map(str::to_owned).collect();
        Account::find(tree, self.user(), &groups)
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
            (
                Path::new(outside),
                Path::new(parts.next().unwrap_or(outside)),
            )
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
        let inaccessible = self.get("InaccessiblePaths").split_whitespace();
        let listed = inaccessible
            .map(|one| one.trim_start_matches(['-', '+']))
            .any(|one| path.starts_with(one));
        hiding
            .map(|(key, _)| *key)
            .or(listed.then_some("InaccessiblePaths"))
    }

    pub(super) fn check(&self, tree: &Tree) -> Vec<Finding> {
        if self.properties.is_empty() {
            let remedy = "the daemon can be started by hand: gangliond --config FILE";
            return vec![Finding::warn(CHECK, "systemd does not run here", remedy)];
        }
        if !self.is_known() {
            let what = format!("systemd does not know {NAME} ({})", self.get("LoadState"));
            let remedy = "install the package, or make install and sudo systemctl daemon-reload";
            return vec![Finding::fail(CHECK, what, remedy)];
        }
        let mut findings = vec![self.state()];
        if self.get("NeedDaemonReload") == "yes" {
            let what = "files have changed since systemd read them";
            findings.push(Finding::warn(CHECK, what, "sudo systemctl daemon-reload"));
        }
        let drop_ins: Vec<_> = self.get("DropInPaths").split_whitespace().collect();
        for file in &drop_ins {
            // For the report.
            let _ = tree.read(file);
        }
        let _ = tree.read(self.get("FragmentPath"));
        findings.push(if drop_ins.is_empty() {
            Finding::ok("drop-ins", "none")
        } else {
            Finding::ok("drop-ins", drop_ins.join(" "))
        });
        if self.account(tree).is_none() {
            let what = format!("there is no user {}", self.user());
            findings.push(Finding::fail(CHECK, what, "sudo systemd-sysusers"));
        }
        findings
    }

    fn state(&self) -> Finding {
        let (active, sub) = (self.get("ActiveState"), self.get("SubState"));
        let restarts = match self.get("NRestarts") {
            "" | "0" => String::new(),
            times => format!(", restarted {times} times"),
        };
        let what = format!("{active} ({sub}){restarts}");
        let status = match self.get("StatusText") {
            "" => String::new(),
            text => format!(": {text}"),
        };
        match active {
            "active" | "reloading" if restarts.is_empty() => {
                Finding::ok(CHECK, format!("{what}{status}"))
            }
            "active" | "reloading" => Finding::warn(
                CHECK,
                format!("{what}{status}"),
                "journalctl -xeu gangliond says why",
            ),
            "failed" => {
                let (result, code) = (self.get("Result"), self.get("ExecMainStatus"));
                let what = format!("{what}, result {result}, exit status {code}");
                let remedy = match code {
                    "78" => {
                        "the configuration or the model cannot be used: see below, and journalctl -xeu gangliond"
                    }
                    _ => {
                        "journalctl -xeu gangliond says why; then sudo systemctl reset-failed gangliond and start it"
                    }
                };
                Finding::fail(CHECK, what, remedy)
            }
            "inactive" => {
                let enabled = self.get("UnitFileState");
                let what = format!("{what}, {enabled}; the first call starts it");
                Finding::warn(CHECK, what, "sudo systemctl enable --now gangliond")
            }
            _ => Finding::warn(CHECK, format!("{what}{status}"), "wait, then look again"),
        }
    }
}

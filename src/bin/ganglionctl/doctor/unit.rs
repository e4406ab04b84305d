//! The service as systemd describes it: its state, its drop-ins, settings that hide a model, and a run of the device
//! checks within its sandbox.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ganglion::load::ServiceGroup;

use super::account::Account;
use super::finding::{Finding, Findings};
use super::tree::Tree;

pub(crate) const NAME: &str = "gangliond.service";
const CHECK: &str = "unit";

/// Remedies for a failed service: exit code 78, or another one.
const MISCONFIGURED: &str =
    "the configuration or the model cannot be used: see below, and journalctl -xeu gangliond";
const FAILED: &str =
    "journalctl -xeu gangliond says why; then sudo systemctl reset-failed gangliond and start it";

/// The properties that `systemctl show` is asked for.
const PROPERTIES: &str = "LoadState,ActiveState,SubState,UnitFileState,Result,ExecMainStatus,NRestarts,StatusText,\
    FragmentPath,DropInPaths,NeedDaemonReload,User,SupplementaryGroups,ProtectHome,PrivateTmp,BindPaths,\
    BindReadOnlyPaths,InaccessiblePaths,ControlGroup,Slice,MemoryMax,MemoryHigh";

/// Folders that a setting hides from the service.
const HIDDEN_BY: &[(&str, &[&str])] = &[
    ("ProtectHome", &["/home", "/root", "/run/user"]),
    ("PrivateTmp", &["/tmp", "/var/tmp"]),
];

/// Prefixes of settings in `[Service]` that limit a process.
const LIMITS: &str = "User Group SupplementaryGroups UMask Environment Device Private NoNewPrivileges CapabilityBounding \
    Ambient Protect ProcSubset ReadWritePaths ReadOnlyPaths Inaccessible ExecPaths NoExecPaths Bind TemporaryFileSystem \
    RootDirectory LockPersonality MemoryDeny Restrict SystemCall IPAddress KeyringMode Limit";

/// The properties of the unit; empty if systemd does not run or does not know the unit.
#[derive(Debug, Default)]
pub(crate) struct Unit(BTreeMap<String, String>);

impl Unit {
    pub(super) fn read(tree: &Tree) -> Self {
        let show = format!("systemctl show {NAME} --no-pager -p {PROPERTIES}");
        let shown = tree.command("systemctl-show", &show).unwrap_or_default();
        let lines = shown.lines().filter_map(|line| line.split_once('='));
        let properties = lines.map(|(key, value)| (key.into(), value.into()));
        Self(properties.collect())
    }

    fn get(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }

    /// Returns the control group of the service, present or future; `None` if systemd does not know the service.
    pub(super) fn group(&self) -> Option<ServiceGroup> {
        let path = match (self.get("ControlGroup"), self.get("Slice")) {
            ("", "") => return None,
            ("", slice) => Path::new(slice).join(NAME),
            (group, _) => group.into(),
        };
        let limits = [("memory.max", "MemoryMax"), ("memory.high", "MemoryHigh")];
        let limits = limits.into_iter();
        // An unset limit is a word instead of a number.
        let limits = limits.filter_map(|(file, key)| Some((file, self.get(key).parse().ok()?)));
        Some(ServiceGroup {
            path,
            limits: limits.collect(),
        })
    }

    /// Whether the service runs or starts.
    pub(crate) fn runs(&self) -> bool {
        !matches!(self.get("ActiveState"), "" | "inactive" | "failed")
    }

    /// Whether systemd knows the unit.
    fn is_known(&self) -> bool {
        self.get("LoadState") == "loaded"
    }

    /// Returns the user of the service; `None` if there is no such user.
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

    /// Returns the paths that are bound for the service, each with its real path.
    fn binds(&self) -> impl Iterator<Item = (&Path, &Path)> {
        let paths = ["BindPaths", "BindReadOnlyPaths"].map(|key| self.get(key).split_whitespace());
        paths.into_iter().flatten().map(|bound| {
            let mut parts = bound.trim_start_matches('-').split(':');
            let outside = parts.next().unwrap_or_default();
            let inside = parts.next().unwrap_or(outside);
            (Path::new(outside), Path::new(inside))
        })
    }

    /// Returns the real path of a path that the service sees.
    pub(super) fn outside(&self, path: &Path) -> PathBuf {
        let bound = self.binds().find_map(|(outside, inside)| {
            let below = path.strip_prefix(inside).ok()?;
            Some(outside.join(below))
        });
        bound.unwrap_or_else(|| path.into())
    }

    /// Returns the setting that hides a path from the service, and the remedy.
    pub(super) fn hides(&self, path: &Path) -> Option<(String, String)> {
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
        let setting = hiding.or(listed.then_some("InaccessiblePaths"))?;
        let shown = path.display();
        let what = format!("{setting}= of the unit hides {shown} from the service");
        Some((what, reveal(path)))
    }

    pub(super) fn check(&self, tree: &Tree, found: &mut Findings) {
        if self.0.is_empty() {
            let remedy = "the daemon can be started by hand: gangliond --config FILE";
            return found.warn(CHECK, "systemd does not run here", remedy);
        }
        if self.get("LoadState") == "masked" {
            let what = format!("{NAME} is masked: nothing starts it");
            let remedy =
                format!("sudo systemctl unmask {NAME}; sudo systemctl --runtime unmask {NAME}");
            return found.fail(CHECK, what, remedy);
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
        let files = self.get("DropInPaths");
        // Reading records the file for the report.
        for file in format!("{files} {}", self.get("FragmentPath")).split_whitespace() {
            let _ = tree.read(file);
        }
        let shown = if files.is_empty() { "none" } else { files };
        found.ok("drop-ins", shown);
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
                let remedy = if code == "78" { MISCONFIGURED } else { FAILED };
                let what = format!("{what}, result {result}, exit status {code}");
                found.fail(CHECK, what, remedy);
            }
            "inactive" => {
                let enabled = self.get("UnitFileState");
                let what = format!("{what}, {enabled}; the first call starts it");
                found.warn(CHECK, what, "sudo systemctl enable --now gangliond");
            }
            _ => found.warn(CHECK, status, "wait, then run this again"),
        }
    }
}

/// Returns the setting that makes a folder visible to the service.
pub(super) fn reveal(path: &Path) -> String {
    let folder = path.parent().unwrap_or(path).display();
    format!(
        "move it to /var/lib/ganglion/models; or sudo systemctl edit gangliond, [Service], \
         BindReadOnlyPaths={folder}:/var/lib/ganglion/elsewhere, and model.path below /var/lib/ganglion/elsewhere"
    )
}

/// Runs the device checks as the service's user within the unit's sandbox.
pub(super) fn run_inside(tree: &Tree, config: &Path) -> Result<Vec<Finding>, String> {
    let output = command_inside(tree, &[])?
        .args(["doctor", "--inside", "--json", "--config"])
        .arg(config)
        .output()
        .map_err(|error| format!("systemd-run: {error}"))?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("systemd-run ends with {} and says: {said}", output.status)
    })
}

/// Returns a command that runs this program as the service's user within the unit's sandbox, with more properties of systemd.
///
/// A transient unit gets all lines of the installed unit and its drop-ins that select the user or limit the process. It
/// does not get lines that create, own or clean up the running service's resources.
pub(super) fn command_inside(tree: &Tree, more: &[String]) -> Result<Command, String> {
    if !Path::new("/run/systemd/system").is_dir() {
        return Err("systemd does not run here".into());
    }
    if !nix::unistd::Uid::effective().is_root() {
        return Err("only root can run a check as the service".into());
    }
    let unit = unit_files(tree).ok_or("systemd does not know the unit")?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let limits = limits(&unit);
    let properties = limits.iter().chain(more);
    let mut command = Command::new("systemd-run");
    command
        .args(["--quiet", "--wait", "--pipe", "--collect"])
        .args(properties.map(|property| format!("--property={property}")))
        .arg("--")
        .arg(program)
        .stdin(Stdio::null());
    Ok(command)
}

/// Returns the text of the unit and its drop-ins; `None` if systemd does not know it.
fn unit_files(tree: &Tree) -> Option<String> {
    let cat = format!("systemctl cat --no-pager {NAME}");
    tree.command("systemctl-cat", &cat)
}

/// Returns the devices that the unit and its drop-ins allow: paths, and names of drivers after "char-"; `None` if systemd does
/// not know the unit.
pub(super) fn allowed_devices(tree: &Tree) -> Option<Vec<String>> {
    let mut allowed = Vec::new();
    for limit in limits(&unit_files(tree)?) {
        let Some(value) = limit.strip_prefix("DeviceAllow=") else {
            continue;
        };
        match value.split_whitespace().next() {
            Some(device) => allowed.push(device.to_owned()),
            None => allowed.clear(),
        }
    }
    Some(allowed)
}

/// Returns the lines of a unit that limit it, in order: a later line may reset an earlier one.
fn limits(unit: &str) -> Vec<String> {
    let joined = unit.replace("\\\n", " ");
    let mut section = "";
    let mut limits = Vec::new();
    for line in joined.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        } else if let Some((key, value)) = line.split_once('=')
            && section == "[Service]"
            && LIMITS.split(' ').any(|limit| key.starts_with(limit))
        {
            limits.push(format!("{}={}", key.trim(), value.trim()));
        }
    }
    limits
}

#[cfg(test)]
mod tests {
    use super::limits;

    /// Settings of the shipped unit that a transient unit must not have.
    const OF_THE_SERVICE: &str = "Type NotifyAccess BusName Sockets ExecStart ExecReload TimeoutStartSec TimeoutStopSec WatchdogSec \
        TimeoutAbortSec Restart RestartSec RestartPreventExitStatus StateDirectory CacheDirectory RuntimeDirectory \
        RuntimeDirectoryPreserve ConfigurationDirectory ConfigurationDirectoryMode WorkingDirectory StandardOutput StandardError SyslogIdentifier \
        OOMScoreAdjust OOMPolicy RemoveIPC";

    #[test]
    fn each_setting_of_the_shipped_unit_is_classified() {
        let unit = include_str!("../../../../systemd/gangliond.service");
        let limits = limits(unit);
        assert!(limits.len() > 30, "{limits:?}");
        let (_, service) = unit.split_once("[Service]").expect("a section");
        let (service, _) = service.split_once("[Install]").expect("another");
        for (key, value) in service.lines().filter_map(|line| line.split_once('=')) {
            let is_limit = limits.contains(&format!("{key}={value}"));
            let is_own = OF_THE_SERVICE.split(' ').any(|own| own == key);
            assert!(is_limit != is_own || key.starts_with('#'), "{key}={value}");
        }
    }

    #[test]
    fn limits_keep_their_order_without_service_settings() {
        let unit = "# /usr/lib/systemd/system/gangliond.service\n[Unit]\nUser=nobody\n[Service]\nType=notify\n\
                    ExecStart=/usr/bin/gangliond\nUser=ganglion\nRuntimeDirectory=ganglion\nDeviceAllow=/dev/nvmap rw\n\
                    # DeviceAllow=/dev/mem\nSystemCallFilter=@system-service \\\n  @pkey\n\n\
                    # /etc/systemd/system/gangliond.service.d/50.conf\n[Service]\nDeviceAllow=\n";
        let expected = [
            "User=ganglion",
            "DeviceAllow=/dev/nvmap rw",
            "SystemCallFilter=@system-service    @pkey",
            "DeviceAllow=",
        ];
        assert_eq!(limits(unit), expected);
    }
}

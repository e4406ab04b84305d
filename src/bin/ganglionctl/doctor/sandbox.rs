//! Runs the device checks as the service's user, within the limits of its unit.
//!
//! A transient unit gets the lines of the installed one that say who it is and what it may do, drop-ins
//! included; not those that make, own or clean up what is the running service's.

use std::path::Path;
use std::process::{Command, Stdio};

use super::finding::Finding;
use super::tree::Tree;
use super::unit;

/// How settings of `[Service]` begin that decide what a process sees and may do.
const LIMITS: &str = "User Group SupplementaryGroups UMask Environment Device Private NoNewPrivileges CapabilityBounding \
    Ambient Protect ProcSubset ReadWritePaths ReadOnlyPaths Inaccessible ExecPaths NoExecPaths Bind TemporaryFileSystem \
    RootDirectory LockPersonality MemoryDeny Restrict SystemCall IPAddress KeyringMode Limit";

/// What the device checks find there.
///
/// # Errors
/// Why they could not be run there.
pub(super) fn run(tree: &Tree, config: &Path) -> Result<Vec<Finding>, String> {
    if !Path::new("/run/systemd/system").is_dir() {
        return Err("systemd does not run here".into());
    }
    if !nix::unistd::Uid::effective().is_root() {
        return Err("only root can run a check as the service".into());
    }
    let cat = format!("systemctl cat --no-pager {}", unit::NAME);
    let unit = tree.command("systemctl-cat", &cat);
    let unit = unit.ok_or("systemd does not know the unit")?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("systemd-run")
        .args(["--quiet", "--wait", "--pipe", "--collect"])
        .args(limits(&unit).map(|limit| format!("--property={limit}")))
        .arg("--")
        .arg(program)
        .args(["doctor", "--inside", "--json", "--config"])
        .arg(config)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("systemd-run: {error}"))?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("systemd-run ends with {} and says: {said}", output.status)
    })
}

/// The lines of a unit that limit it, in their order: a later one may reset an earlier.
fn limits(unit: &str) -> impl Iterator<Item = String> {
    let joined = unit.replace("\\\n", " ");
    let mut section = String::new();
    let mut limits = Vec::new();
    for line in joined.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line.into();
        } else if let Some((key, value)) = line.split_once('=')
            && section == "[Service]"
            && LIMITS.split(' ').any(|limit| key.starts_with(limit))
        {
            limits.push(format!("{}={}", key.trim(), value.trim()));
        }
    }
    limits.into_iter()
}

#[cfg(test)]
mod tests {
    use super::limits;

    #[test]
    fn limits_are_taken_in_order_and_nothing_that_is_the_running_services() {
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
        assert_eq!(limits(unit).collect::<Vec<_>>(), expected);
    }
}

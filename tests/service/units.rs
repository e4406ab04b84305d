//! What the package installs for systemd is accepted by it, and names what the code names.

use std::fs;
use std::process::{Command, Output};

const UNIT: &str = include_str!("../../systemd/gangliond.service");
const DEVICES: &str = include_str!("../../systemd/DEVICES.md");
const SYSUSERS: &str = include_str!("../../systemd/sysusers.d/gangliond.conf");

/// The values of `key`.
fn values(key: &str) -> impl Iterator<Item = &'static str> + '_ {
    UNIT.lines()
        .filter_map(move |line| line.strip_prefix(key)?.strip_prefix('='))
}

fn said(output: &Output) -> String {
    let both = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

#[test]
fn the_unit_is_valid_without_a_warning() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("gangliond.service");
    let built = UNIT.replace("/usr/bin/gangliond", env!("CARGO_BIN_EXE_gangliond"));
    assert_ne!(built, UNIT, "it starts the binary");
    fs::write(&file, built).expect("the unit is written");
    let verified = Command::new("systemd-analyze")
        .arg("verify")
        .arg(&file)
        .output()
        .expect("systemd-analyze runs");
    assert_eq!(said(&verified), "");
    assert!(verified.status.success());
}

#[test]
fn the_unit_names_what_the_code_names() {
    assert_eq!(values("BusName").collect::<Vec<_>>(), [ganglion::bus::NAME]);
    let never_again: Vec<_> = values("RestartPreventExitStatus").collect();
    let bad_model = ganglion::service::Failure::Model(String::new());
    assert_eq!(never_again, [bad_model.exit_code().to_string()]);
    let configuration = values("ConfigurationDirectory").next().expect("a folder");
    assert_eq!(
        ganglion::config::DEFAULT_FILE,
        format!("/etc/{configuration}/gangliond.toml")
    );
}

#[test]
fn the_unit_opens_the_devices_that_are_documented() {
    let documented: Vec<_> = DEVICES
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .map(|(node, rest)| format!("{node} {}", rest.split(' ').next().unwrap_or_default()))
        .collect();
    assert!(!documented.is_empty());
    assert_eq!(values("DeviceAllow").collect::<Vec<_>>(), documented);
    assert_eq!(values("DevicePolicy").collect::<Vec<_>>(), ["closed"]);
}

#[test]
fn the_unit_runs_as_a_user_that_is_made() {
    let root = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(root.path().join("etc")).expect("a folder");
    let file = root.path().join("gangliond.conf");
    fs::write(&file, SYSUSERS).expect("the file is written");
    let made = Command::new("systemd-sysusers")
        .arg(format!("--root={}", root.path().display()))
        .arg(&file)
        .output()
        .expect("systemd-sysusers runs");
    assert!(made.status.success(), "{}", said(&made));
    let read = |name: &str| fs::read_to_string(root.path().join("etc").join(name)).expect(name);
    let (users, groups) = (read("passwd"), read("group"));
    let user = values("User").next().expect("a user");
    assert!(
        users
            .lines()
            .any(|line| line.starts_with(&format!("{user}:")))
    );
    let supplementary = values("SupplementaryGroups").flat_map(str::split_whitespace);
    for group in values("Group").chain(supplementary) {
        let made = groups
            .lines()
            .any(|line| line.starts_with(&format!("{group}:")));
        assert!(made, "group {group} is made");
    }
}

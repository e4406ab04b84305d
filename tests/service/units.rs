//! The package's files for systemd: systemd accepts them, and they agree with the code.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use crate::support::needs;

const UNIT: &str = include_str!("../../systemd/gangliond.service");
const SOCKET: &str = include_str!("../../systemd/ganglion-openai.socket");
const TCP: &str = include_str!("../../systemd/drop-ins/openai-tcp.conf");
const DEVICES: &str = include_str!("../../systemd/DEVICES.md");
const TEGRA: &str = include_str!("../../systemd/drop-ins/40-tegra.conf");
const GENERATOR: &str = include_str!("../../systemd/gangliond-generator");
const SYSUSERS: &str = include_str!("../../systemd/sysusers.d/gangliond.conf");

/// The values of `key` in the unit.
fn values(key: &str) -> impl Iterator<Item = &'static str> + '_ {
    values_of(UNIT, key)
}

fn values_of<'a>(text: &'static str, key: &'a str) -> impl Iterator<Item = &'static str> + 'a {
    text.lines()
        .filter_map(move |line| line.strip_prefix(key)?.strip_prefix('='))
}

fn said(output: &Output) -> String {
    let both = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

#[test]
fn the_unit_is_valid_without_a_warning() {
    if !needs::programs(&["systemd-analyze"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("gangliond.service");
    let socket = folder.path().join("ganglion-openai.socket");
    fs::write(&socket, SOCKET).expect("the socket is written");
    let built = UNIT
        .replace("/usr/bin/gangliond", env!("CARGO_BIN_EXE_gangliond"))
        .replace("/usr/bin/ganglionctl", env!("CARGO_BIN_EXE_ganglionctl"));
    assert!(!built.contains("/usr/bin"), "it starts what is built");
    fs::write(&file, built).expect("the unit is written");
    let verified = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .args([&file, &socket])
        .output()
        .expect("systemd-analyze runs");
    assert_eq!(said(&verified), "");
    assert!(verified.status.success());
}

/// The systemd version that introduced each key of the unit and its drop-ins, from the HISTORY of its manual. A key
/// that is not listed is as old as systemd 247.
const SINCE: &[(&str, u32)] = &[
    ("ExitType", 250),
    ("ExtensionDirectories", 251),
    ("ImportCredential", 254),
    ("LogFilterPatterns", 253),
    ("ManagedOOMPreference", 248),
    ("MemoryPressureWatch", 254),
    ("NoExecPaths", 248),
    ("ExecPaths", 248),
    ("OpenFile", 253),
    ("PrivateIPC", 248),
    ("PrivatePIDs", 257),
    ("ReloadSignal", 253),
    ("RestartMaxDelaySec", 254),
    ("RestartMode", 254),
    ("RestartSteps", 254),
    ("RestrictFileSystems", 250),
    ("RestrictNetworkInterfaces", 250),
    ("SurviveFinalKillSignal", 255),
];
const OLDEST: u32 = 247;

fn newest_key(text: &str) -> (u32, &str) {
    let keys = text.lines().filter_map(|line| line.split_once('='));
    let since = keys.map(|(key, _)| {
        let listed = SINCE.iter().find(|(known, _)| *known == key);
        (listed.map_or(OLDEST, |(_, since)| *since), key)
    });
    since.max().unwrap_or((OLDEST, ""))
}

#[test]
fn every_key_is_known_to_the_systemd_that_reads_it() {
    assert_eq!(newest_key(UNIT).0, OLDEST, "{}", newest_key(UNIT).1);
    assert_eq!(newest_key(SOCKET).0, OLDEST, "{}", newest_key(SOCKET).1);
    assert_eq!(newest_key(TCP).0, OLDEST, "{}", newest_key(TCP).1);
    assert_eq!(newest_key(TEGRA).0, OLDEST, "{}", newest_key(TEGRA).1);
    for (name, text) in drop_ins() {
        let Some((_, of)) = name.rsplit_once("-v") else {
            assert!(
                ["40-tegra.conf", "openai-tcp.conf"].contains(&&*name),
                "{name}"
            );
            continue;
        };
        let of: u32 = of.trim_end_matches(".conf").parse().expect("a number");
        let (since, key) = newest_key(&text);
        assert_eq!(since, of, "{name}: {key}");
    }
}

/// The names and texts of the package's drop-ins.
fn drop_ins() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/systemd/drop-ins");
    let files = fs::read_dir(folder).expect("the folder is there");
    let files: Vec<_> = files.map(|file| file.expect("an entry").path()).collect();
    assert!(!files.is_empty());
    files
        .iter()
        .map(|file| {
            let name = file.file_name().expect("a name").to_string_lossy();
            (name.into_owned(), fs::read_to_string(file).expect("a text"))
        })
        .collect()
}

/// Runs the script with systemd `running` active and `installed` on the disk. Returns the active drop-ins.
fn generated(running: &str, installed: &str) -> Vec<String> {
    generated_on("", running, installed)
}

/// Runs the script on a board with this compatible string in the device tree.
fn generated_on(compatible: &str, running: &str, installed: &str) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [templates, out] = ["templates", "out"].map(|name| folder.path().join(name));
    fs::create_dir(&templates).expect("a folder");
    let names = [
        "40-tegra.conf",
        "40-v247.conf",
        "50-v250.conf",
        "50-v254.conf",
        "openai-tcp.conf",
        "README",
    ];
    for name in names {
        fs::write(templates.join(name), "").expect("a file");
    }
    let board = folder.path().join("compatible");
    fs::write(&board, compatible).expect("a file");
    let program = |name: &str, says: &str| {
        let file = folder.path().join(name);
        let text = format!("#!/bin/sh\necho '{says}'\necho '+PAM'\n");
        fs::write(&file, text).expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("it is a program");
        file.display().to_string()
    };
    let (first, systemctl) = (program("1", running), program("systemctl", installed));
    let script = GENERATOR
        .replace(
            "/usr/share/ganglion/drop-ins",
            &templates.display().to_string(),
        )
        .replace("/proc/1/exe", &first)
        .replace(
            "/sys/firmware/devicetree/base/compatible",
            &board.display().to_string(),
        )
        .replace("version systemctl", &format!("version {systemctl}"));
    let ran = Command::new("sh")
        .args(["-c", &script, "generator"])
        .arg(&out)
        .output();
    let ran = ran.expect("sh runs");
    assert!(ran.status.success(), "{}", said(&ran));
    assert_eq!(said(&ran), "");
    let Ok(links) = fs::read_dir(out.join("gangliond.service.d")) else {
        return Vec::new();
    };
    let mut links: Vec<_> = links.map(|link| link.expect("an entry").path()).collect();
    links.sort();
    links
        .iter()
        .map(|link| {
            assert!(fs::read(link).is_ok(), "it leads to the file");
            let name = link.file_name().expect("a name");
            name.to_string_lossy().into_owned()
        })
        .collect()
}

#[test]
fn drop_ins_match_the_running_systemd() {
    let (old, middle) = ("40-v247.conf", "50-v250.conf");
    let all = [old, middle, "50-v254.conf"];
    assert_eq!(generated("systemd 247 (247.3-7+deb11u6)", ""), [old]);
    assert_eq!(
        generated("systemd 252 (252.39-1~deb12u2)", ""),
        [old, middle]
    );
    assert_eq!(generated("systemd 254 (254.1)", ""), all);
    assert_eq!(generated("systemd 260~rc1", ""), all);
    let upgraded = generated(
        "systemd 249 (249.11-0ubuntu3)",
        "systemd 255 (255.4-1ubuntu8)",
    );
    assert_eq!(
        upgraded,
        [old],
        "the one that runs, not the one on the disk"
    );
    let unable = generated(
        "1: error while loading shared libraries",
        "systemd 255 (255.4)",
    );
    assert_eq!(unable, all);
    assert!(generated("busybox", "").is_empty(), "an unknown version");
}

/// Elsewhere systemd would report each missing node at every start.
#[test]
fn the_nodes_of_a_jetson_are_requested_on_a_jetson_only() {
    let orin = "nvidia,p3737-0000+p3701-0005\0nvidia,p3701-0005\0nvidia,tegra234\0";
    assert_eq!(generated_on(orin, "busybox", ""), ["40-tegra.conf"]);
    let other = "raspberrypi,5-model-b\0brcm,bcm2712\0";
    assert!(generated_on(other, "busybox", "").is_empty());
    let paths: Vec<_> = values("DeviceAllow")
        .filter(|device| device.starts_with('/'))
        .collect();
    assert!(paths.is_empty(), "{paths:?}");
}

#[test]
fn the_unit_agrees_with_the_code() {
    assert_eq!(values("BusName").collect::<Vec<_>>(), [ganglion::bus::NAME]);
    let never_again: Vec<_> = values("RestartPreventExitStatus").collect();
    let bad_model = ganglion::service::Failure::Model(String::new());
    assert_eq!(never_again, [format!("64 {}", bad_model.exit_code())]);
    let configuration = values("ConfigurationDirectory").next().expect("a folder");
    assert_eq!(
        ganglion::config::DEFAULT_FILE,
        format!("/etc/{configuration}/gangliond.toml")
    );
}

/// systemd passes the socket however the service starts, and the socket is still there when the service has stopped.
#[test]
fn the_socket_belongs_to_the_service() {
    assert_eq!(
        values("Sockets").collect::<Vec<_>>(),
        ["ganglion-openai.socket"]
    );
    let of_socket = |key| values_of(SOCKET, key).collect::<Vec<_>>();
    assert_eq!(of_socket("Service"), ["gangliond.service"]);
    let folder = values("RuntimeDirectory").next().expect("a folder");
    let path = format!("/run/{folder}/openai.sock");
    assert_eq!(of_socket("ListenStream"), [path]);
    assert_eq!(values("RuntimeDirectoryPreserve").next(), Some("yes"));
    assert_eq!(of_socket("SocketMode"), ["0660"], "for the group alone");
    assert_eq!(values("PrivateNetwork").next(), Some("yes"));
    let tcp: Vec<_> = values_of(TCP, "ListenStream").collect();
    assert_eq!(tcp, ["127.0.0.1:11435"], "not for other machines");
}

#[test]
fn the_unit_opens_the_devices_that_are_documented() {
    let documented: Vec<_> = DEVICES
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .map(|(node, rest)| format!("{node} {}", rest.split(' ').next().unwrap_or_default()))
        .collect();
    assert!(!documented.is_empty());
    let allowed = values("DeviceAllow").chain(values_of(TEGRA, "DeviceAllow"));
    assert_eq!(allowed.collect::<Vec<_>>(), documented);
    assert_eq!(values("DevicePolicy").collect::<Vec<_>>(), ["closed"]);
}

#[test]
fn the_unit_runs_as_a_user_that_is_made() {
    if !needs::programs(&["systemd-sysusers"]) {
        return;
    }
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

//! Tries to leave its own sandbox: to write, to open devices, to reach the network, to gain rights.
//!
//! It prints the actions that succeed, sorted, and changes no existing file.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use nix::unistd::geteuid;

use crate::Failed;

/// File systems of the kernel: they have no room for new files, and far too many files to open.
const KERNEL: &[&str] = &["/proc", "/sys/kernel/tracing", "/sys/kernel/debug"];

/// Files of the kernel that root without a sandbox could change.
const KNOBS: &[&str] = &[
    "/proc/sys/kernel/panic",
    "/proc/sys/vm/swappiness",
    "/proc/sysrq-trigger",
    "/proc/kcore",
    "/proc/kmsg",
    "/dev/kmsg",
];

pub(crate) fn probe(devices: &[&str]) -> Result<(), Failed> {
    let mut open = BTreeSet::new();
    write_everywhere(&mut open);
    for path in KNOBS {
        if opens_for_writing(Path::new(path)) {
            open.insert(format!("write {path}"));
        }
    }
    for device in devices {
        match OpenOptions::new().read(true).write(true).open(device) {
            Ok(_) => _ = open.insert(format!("device {device}")),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(format!("there is no {device} to try").into());
            }
            Err(_) => {}
        }
    }
    reach_the_network(&mut open);
    gain_rights(&mut open)?;
    // For root only the sandbox can refuse; for the service's user file modes can too.
    let who = if geteuid().is_root() { "root: " } else { "" };
    for line in &open {
        println!("{who}{line}");
    }
    println!("end of the probe");
    Ok(())
}

/// Creates a file in every directory, and opens every file for writing without a change.
fn write_everywhere(open: &mut BTreeSet<String>) {
    let mut folders = vec![PathBuf::from("/")];
    while let Some(folder) = folders.pop() {
        let made = folder.join("ganglion-probe");
        if OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&made)
            .is_ok()
        {
            _ = fs::remove_file(&made);
            open.insert(format!("write {}", folder.display()));
        }
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() {
                if !KERNEL.iter().any(|kernel| path.starts_with(kernel)) {
                    folders.push(path);
                }
            } else if (kind.is_file() || kind.is_char_device() || kind.is_block_device())
                && opens_for_writing(&path)
                && !open.contains(&format!("write {}", folder.display()))
            {
                open.insert(format!("write {}", path.display()));
            }
        }
    }
}

fn opens_for_writing(path: &Path) -> bool {
    OpenOptions::new()
        .write(true)
        .custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits())
        .open(path)
        .is_ok()
}

fn reach_the_network(open: &mut BTreeSet<String>) {
    for (name, family) in [
        ("inet", AddressFamily::Inet),
        ("inet6", AddressFamily::Inet6),
        ("netlink", AddressFamily::Netlink),
        ("packet", AddressFamily::Packet),
        ("vsock", AddressFamily::Vsock),
        ("alg", AddressFamily::Alg),
    ] {
        for kind in [SockType::Stream, SockType::Datagram, SockType::Raw] {
            if socket(family, kind, SockFlag::empty(), None).is_ok() {
                open.insert(format!("socket {name}"));
            }
        }
    }
    if UdpSocket::bind(("127.0.0.1", 0)).is_ok() {
        open.insert("bind 127.0.0.1".into());
    }
    // Only the loopback interface must exist.
    let interfaces = fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    for line in interfaces.lines().skip(2) {
        let name = line.split(':').next().unwrap_or_default().trim();
        if name != "lo" {
            open.insert(format!("interface {name}"));
        }
    }
}

fn gain_rights(open: &mut BTreeSet<String>) -> Result<(), Failed> {
    let status = fs::read_to_string("/proc/self/status")?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default()
            .trim_matches([':', '\t', ' '])
            .to_owned()
    };
    for (name, wanted) in [
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
        ("CapEff", "0000000000000000"),
        ("CapBnd", "0000000000000000"),
    ] {
        let found = field(name);
        if found != wanted {
            open.insert(format!("{name} {found}"));
        }
    }
    for (name, flag) in [
        ("user", CloneFlags::CLONE_NEWUSER),
        ("mount", CloneFlags::CLONE_NEWNS),
        ("net", CloneFlags::CLONE_NEWNET),
    ] {
        if unshare(flag).is_ok() {
            open.insert(format!("namespace {name}"));
        }
    }
    Ok(())
}

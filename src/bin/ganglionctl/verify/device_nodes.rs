//! Compares the nodes that CUDA opens with the devices that the unit allows.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::checks::DEVICE_NODES;
use super::found::Results;
use crate::doctor::Machine;

pub(super) fn check(machine: &Machine, results: &mut Results) {
    let nodes = machine.nodes();
    if nodes.is_empty() {
        return results.not_run(DEVICE_NODES, "there is no NVIDIA GPU");
    }
    let Some(allowed) = machine.allowed_devices() else {
        return results.not_run(DEVICE_NODES, "systemd does not know the unit here");
    };
    let drivers = drivers(&machine.text("/proc/devices"));
    let (mut open, mut wrong) = (Vec::new(), Vec::new());
    for node in nodes {
        let there = |name: &&&str| machine.path(Path::new(name)).exists();
        let Some(name) = node.names.iter().find(there) else {
            wrong.push(format!("{} is missing", node.names[0]));
            continue;
        };
        let metadata = std::fs::metadata(machine.path(Path::new(name)));
        let major = metadata.map(|node| nix::sys::stat::major(node.rdev()));
        let driver = major.ok().and_then(|major| drivers.get(&major));
        let driver = driver.map_or("unknown", String::as_str);
        if allowed.iter().any(|rule| allows(rule, name, driver)) {
            open.push(format!("{name} ({driver})"));
        } else {
            wrong.push(format!("{name} of driver {driver} is not allowed"));
        }
    }
    let all: Vec<_> = wrong.iter().chain(&open).map(String::as_str).collect();
    results.judge(DEVICE_NODES, wrong.is_empty(), all.join(", "));
}

/// Reads the character devices of /proc/devices: the driver of each major number.
fn drivers(text: &str) -> BTreeMap<u64, String> {
    let lines = text
        .lines()
        .skip_while(|line| !line.starts_with("Character"));
    let lines = lines.skip(1).take_while(|line| !line.trim().is_empty());
    let drivers = lines.filter_map(|line| {
        let (major, name) = line.trim().split_once(' ')?;
        Some((major.parse().ok()?, name.trim().to_owned()))
    });
    drivers.collect()
}

/// Whether a rule of a unit, a path or "char-" with a pattern for the name of a driver, allows a node.
fn allows(rule: &str, node: &str, driver: &str) -> bool {
    let Some(pattern) = rule.strip_prefix("char-") else {
        return rule == node;
    };
    match pattern.split_once('*') {
        None => pattern == driver,
        Some((start, end)) => {
            driver.len() >= start.len() + end.len()
                && driver.starts_with(start)
                && driver.ends_with(end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{allows, drivers};

    #[test]
    fn rules_allow_paths_and_drivers() {
        for (rule, allowed) in [
            ("char-*.gpu", true),
            ("char-*.ga10b", false),
            ("char-17000000.gpu", true),
            ("/dev/nvgpu/igpu0/ctrl", true),
            ("/dev/nvmap", false),
        ] {
            let is_allowed = allows(rule, "/dev/nvgpu/igpu0/ctrl", "17000000.gpu");
            assert_eq!(is_allowed, allowed, "{rule}");
        }
    }

    #[test]
    fn character_devices_are_read_and_block_devices_are_not() {
        let text =
            "Character devices:\n  1 mem\n226 drm\n505 17000000.gpu\n\nBlock devices:\n  7 loop\n";
        let drivers = drivers(text);
        assert_eq!(drivers.len(), 3);
        assert_eq!(drivers[&505], "17000000.gpu");
    }
}

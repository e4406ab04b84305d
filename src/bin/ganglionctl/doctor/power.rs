//! The power mode and the clocks that it allows, where the board tells them.

use super::finding::Finding;
use super::tree::Tree;

/// What nvpmodel.conf lists.
struct Mode {
    id: u32,
    name: String,
}

/// Of lines like `< POWER_MODEL ID=0 NAME=MAXN >`; comments begin with `#`.
fn modes(text: &str) -> Vec<Mode> {
    let lines = text.lines().filter_map(|line| {
        let words = line.trim().strip_prefix("< POWER_MODEL ")?;
        let value = |key: &str| {
            words
                .split_whitespace()
                .find_map(|word| word.strip_prefix(key))
        };
        Some(Mode {
            id: value("ID=")?.parse().ok()?,
            name: value("NAME=")?.into(),
        })
    });
    lines.collect()
}

/// The mode in force: what nvpmodel has written, else the default.
fn current(status: Option<&str>, listed: &str) -> Option<u32> {
    let written = status.and_then(|status| {
        status
            .split_whitespace()
            .find_map(|word| word.strip_prefix("pmode:"))
    });
    let default = || {
        listed
            .lines()
            .find_map(|line| line.trim().strip_prefix("< PM_CONFIG DEFAULT="))
    };
    let digits = written.or_else(default)?;
    digits.trim_end_matches('>').trim().parse().ok()
}

pub(super) fn check(tree: &Tree, is_jetson: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    if is_jetson {
        findings.push(mode(tree));
    }
    findings.extend(gpu_clock(tree));
    findings.extend(memory_clock(tree));
    findings
}

fn mode(tree: &Tree) -> Finding {
    const CHECK: &str = "power mode";
    let status = tree.read("/var/lib/nvpmodel/status").ok();
    let listed = tree.read("/etc/nvpmodel.conf").unwrap_or_default();
    let modes = modes(&listed);
    let Some(id) = current(status.as_deref(), &listed) else {
        let remedy = "install nvidia-l4t-nvpmodel, or ask sudo nvpmodel -q";
        return Finding::warn(CHECK, "nvpmodel does not tell it", remedy);
    };
    let name = modes
        .iter()
        .find(|mode| mode.id == id)
        .map_or("unknown", |mode| &mode.name);
    let what = format!("{name} ({id})");
    let best = modes
        .iter()
        .filter(|mode| mode.name.starts_with("MAXN"))
        .max_by_key(|mode| mode.name.len());
    match best {
        Some(best) if best.id != id => {
            let remedy = format!(
                "tokens come as fast as memory does: sudo nvpmodel -m {} ({}) lets clocks rise, if supply and cooling bear it",
                best.id, best.name
            );
            Finding::warn(CHECK, what, remedy)
        }
        _ => Finding::ok(CHECK, what),
    }
}

fn gpu_clock(tree: &Tree) -> Option<Finding> {
    const CHECK: &str = "GPU clock";
    const FOLDER: &str = "/sys/class/devfreq";
    let name = tree.entries(FOLDER).into_iter().find(|name| {
        name.split_once('.')
            .is_some_and(|(_, device)| device == "gpu")
            || name.starts_with("gpu-gpc")
    })?;
    let hertz = |file: &str| tree.number(format!("{FOLDER}/{name}/{file}"));
    let megahertz = |hertz: i64| hertz / 1_000_000;
    let (now, most) = (hertz("cur_freq")?, hertz("max_freq")?);
    let what = format!("{} MHz now, {} at most", megahertz(now), megahertz(most));
    let listed = tree
        .read(format!("{FOLDER}/{name}/available_frequencies"))
        .unwrap_or_default();
    let highest = listed
        .split_whitespace()
        .filter_map(|word| word.parse::<i64>().ok())
        .max();
    match highest.filter(|highest| *highest > most) {
        Some(highest) => {
            let what = format!("{what}, and the GPU could run at {}", megahertz(highest));
            Some(Finding::warn(
                CHECK,
                what,
                "the power mode limits it: see sudo nvpmodel -q",
            ))
        }
        None => Some(Finding::ok(CHECK, what)),
    }
}

/// Only root may read it.
fn memory_clock(tree: &Tree) -> Option<Finding> {
    const CHECK: &str = "memory clock";
    const FOLDER: &str = "/sys/kernel/debug/bpmp/debug/clk/emc";
    let hertz = |file: &str| tree.number(format!("{FOLDER}/{file}"));
    let (now, most) = (hertz("rate")?, hertz("max_rate")?);
    let what = format!("{} MHz now, {} at most", now / 1_000_000, most / 1_000_000);
    Some(Finding::ok(CHECK, what))
}

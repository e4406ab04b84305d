//! The power mode and the clocks that it allows, where the board tells them.

use super::finding::Findings;
use super::tree::Tree;

pub(super) fn check(tree: &Tree, is_jetson: bool, found: &mut Findings) {
    if is_jetson {
        mode(tree, found);
    }
    gpu_clock(tree, found);
    // Only root may read it.
    let emc = |file| tree.number(format!("/sys/kernel/debug/bpmp/debug/clk/emc/{file}"));
    if let (Some(now), Some(most)) = (emc("rate"), emc("max_rate")) {
        found.ok("memory clock", clock(now, most));
    }
}

/// Of nvpmodel.conf: `< POWER_MODEL ID=0 NAME=MAXN >` for each mode, `< PM_CONFIG DEFAULT=2 >`; comments begin with `#`.
fn mode(tree: &Tree, found: &mut Findings) {
    const CHECK: &str = "power mode";
    fn value<'a>(words: &'a str, key: &str) -> Option<&'a str> {
        words
            .split([' ', '\n'])
            .find_map(|word| word.strip_prefix(key))
    }
    let status = tree.text("/var/lib/nvpmodel/status");
    let listed = tree.text("/etc/nvpmodel.conf");
    let lines = |kind| {
        listed
            .lines()
            .filter_map(move |line| line.trim().strip_prefix(kind))
    };
    let mode = |words| {
        Some((
            value(words, "ID=")?.parse::<u32>().ok()?,
            value(words, "NAME=")?,
        ))
    };
    let modes: Vec<_> = lines("< POWER_MODEL ").filter_map(mode).collect();
    // What nvpmodel has written, else the default.
    let default = || lines("< PM_CONFIG ").find_map(|words| value(words, "DEFAULT="));
    let digits = value(&status, "pmode:").or_else(default);
    let digits = digits.map(|digits| digits.trim_end_matches('>'));
    let Some(id) = digits.and_then(|digits| digits.parse::<u32>().ok()) else {
        let remedy = "install nvidia-l4t-nvpmodel, or ask sudo nvpmodel -q";
        return found.warn(CHECK, "nvpmodel does not tell it", remedy);
    };
    let current = modes.iter().find(|(mode, _)| *mode == id);
    let what = format!("{} ({id})", current.map_or("unknown", |(_, name)| name));
    let best = modes.iter().filter(|(_, name)| name.starts_with("MAXN"));
    match best.max_by_key(|(_, name)| name.len()) {
        Some((best, name)) if *best != id => {
            let remedy = format!(
                "tokens come as fast as memory does: sudo nvpmodel -m {best} ({name}) lets clocks rise, if supply and cooling \
                 bear it"
            );
            found.warn(CHECK, what, remedy);
        }
        _ => found.ok(CHECK, what),
    }
}

fn gpu_clock(tree: &Tree, found: &mut Findings) {
    const CHECK: &str = "GPU clock";
    const FOLDER: &str = "/sys/class/devfreq";
    let devices = tree.entries(FOLDER);
    let is_gpu = |name: &&String| {
        name.split_once('.')
            .is_some_and(|(_, device)| device == "gpu")
            || name.starts_with("gpu-gpc")
    };
    let Some(name) = devices.iter().find(is_gpu) else {
        return;
    };
    let hertz = |file| tree.number(format!("{FOLDER}/{name}/{file}"));
    let (Some(now), Some(most)) = (hertz("cur_freq"), hertz("max_freq")) else {
        return;
    };
    let listed = tree.text(format!("{FOLDER}/{name}/available_frequencies"));
    let listed = listed
        .split_whitespace()
        .filter_map(|word| word.parse().ok());
    match listed.max().filter(|highest: &i64| *highest > most) {
        Some(highest) => {
            let could = format!("and the GPU could run at {}", highest / 1_000_000);
            let remedy = "the power mode limits it: see sudo nvpmodel -q";
            found.warn(CHECK, format!("{}, {could}", clock(now, most)), remedy);
        }
        None => found.ok(CHECK, clock(now, most)),
    }
}

fn clock(now: i64, most: i64) -> String {
    format!("{} MHz now, {} at most", now / 1_000_000, most / 1_000_000)
}

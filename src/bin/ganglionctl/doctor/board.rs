//! The board's name, power mode, clocks, temperatures and supply.

use ganglion::board::{PowerMode, PowerModes, is_gpu};
use ganglion::nodes;

use super::finding::Findings;
use super::tree::Tree;

const COOL: &str = "improve the cooling (is the fan turning? sudo systemctl status nvfancontrol), or take a lower power mode";

/// The board, from the device tree and NVIDIA's release file.
#[derive(Clone, Debug, Default)]
pub(super) struct Board {
    /// "NVIDIA Jetson AGX Orin Developer Kit"; the kind of processor if there is no device tree.
    pub(super) name: String,
    /// Whether it is a Tegra, whose GPU shares the CPU's memory.
    pub(super) is_jetson: bool,
    /// Whether it has the GPU of an Orin.
    is_orin: bool,
    /// "R36 revision 4.3".
    pub(super) release: Option<String>,
}

impl Board {
    pub(super) fn read(tree: &Tree) -> Self {
        let mut name = tree.text("/proc/device-tree/model");
        if name.is_empty() {
            name = std::env::consts::ARCH.into();
        }
        let compatible = tree.text(nodes::COMPATIBLE);
        Self {
            name,
            is_jetson: nodes::is_jetson(&compatible),
            is_orin: compatible.contains("nvidia,tegra234"),
            release: short(&tree.text("/etc/nv_tegra_release")),
        }
    }

    pub(super) fn check(&self, found: &mut Findings) {
        const CHECK: &str = "board";
        let name = &self.name;
        if !self.is_jetson {
            return found.ok(CHECK, format!("{name}, no Jetson"));
        }
        let Some(release) = &self.release else {
            let what = format!("{name}, and /etc/nv_tegra_release does not say its release");
            return found.warn(CHECK, what, "is this a container? pass the file into it");
        };
        let what = format!("{name}, Jetson Linux {release}");
        if !self.is_orin {
            let remedy =
                "this build's kernels are for Orin; what is newer compiles its PTX at each start";
            return found.warn(CHECK, what, remedy);
        }
        if version(release) < Some((36, 4)) {
            let remedy = "install JetPack 6.2 (R36.4) or later: CUDA 12.6 is needed";
            return found.fail(CHECK, what, remedy);
        }
        found.ok(CHECK, what);
    }

    /// Checks the power mode and its clocks, temperatures, and throttling.
    pub(super) fn check_speed(&self, tree: &Tree, found: &mut Findings) {
        if self.is_jetson {
            power_mode(tree, found);
        }
        gpu_clock(tree, found);
        // Only root may read the memory's clock.
        let emc = |file| tree.number(format!("/sys/kernel/debug/bpmp/debug/clk/emc/{file}"));
        if let (Some(now), Some(most)) = (emc("rate"), emc("max_rate")) {
            found.ok("memory clock", clock(now, most));
        }
        heat(tree, found);
    }
}

/// Shortens "# R36 (release), REVISION: 4.3, GCID: ...".
fn short(release: &str) -> Option<String> {
    let release = release.trim_start_matches("# ");
    let (major, rest) = release.split_once(" (release), REVISION: ")?;
    let revision = rest.split(',').next()?;
    Some(format!("{major} revision {revision}"))
}

/// Returns the first two numbers of "R36 revision 4.3".
fn version(release: &str) -> Option<(u32, u32)> {
    let (major, revision) = release.strip_prefix('R')?.split_once(" revision ")?;
    let minor = revision.split('.').next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn power_mode(tree: &Tree, found: &mut Findings) {
    const CHECK: &str = "power mode";
    let modes = PowerModes::parse(&tree.text(absolute(PowerModes::LIST)));
    let Some(current) = modes.current(&tree.text(absolute(PowerModes::RECORD))) else {
        let remedy = "install nvidia-l4t-nvpmodel, or ask sudo nvpmodel -q";
        return found.warn(CHECK, "nvpmodel does not report it", remedy);
    };
    let PowerMode { id, name } = &current;
    let what = format!("{name} ({id})");
    match modes.fastest() {
        Some(PowerMode { id: best, name }) if best != id => {
            let remedy = format!(
                "tokens come as fast as memory does: sudo nvpmodel -m {best} ({name}) lets clocks rise, if supply and cooling \
                 bear it"
            );
            found.warn(CHECK, what, remedy);
        }
        _ => found.ok(CHECK, what),
    }
}

fn absolute(path: &str) -> String {
    format!("/{path}")
}

fn gpu_clock(tree: &Tree, found: &mut Findings) {
    const CHECK: &str = "GPU clock";
    const FOLDER: &str = "/sys/class/devfreq";
    let devices = tree.entries(FOLDER);
    let Some(name) = devices.iter().find(|name| is_gpu(name)) else {
        return;
    };
    let hertz = |file| tree.number(format!("{FOLDER}/{name}/{file}"));
    let (Some(now), Some(most)) = (hertz("cur_freq"), hertz("max_freq")) else {
        return;
    };
    let listed = tree.text(format!("{FOLDER}/{name}/available_frequencies"));
    let listed = listed.split_whitespace().flat_map(str::parse::<i64>);
    match listed.max().filter(|highest| *highest > most) {
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

/// Checks temperatures, and throttling because of them or of the supply.
fn heat(tree: &Tree, found: &mut Findings) {
    const CHECK: &str = "temperature";
    const FOLDER: &str = "/sys/class/thermal";
    let entries = tree.entries(FOLDER);
    let file = |of: &str, name: &str| format!("{FOLDER}/{of}/{name}");
    let named = |start| entries.iter().filter(move |name| name.starts_with(start));
    // The temperature of a sleeping zone cannot be read.
    let zones = named("thermal_zone").filter_map(|zone| {
        let temperature = tree.number(file(zone, "temp"))?;
        Some((zone, tree.text(file(zone, "type")), temperature))
    });
    let zones: Vec<_> = zones.collect();
    let Some((_, hottest, most)) = zones.iter().max_by_key(|(_, _, at)| at) else {
        return;
    };
    let mut slowed = Vec::new();
    for alert in named("cooling_device") {
        let kind = tree.text(file(alert, "type"));
        // Others are fans, and limits that apply without heat.
        if kind.ends_with("-alert") && tree.number(file(alert, "cur_state")) > Some(0) {
            slowed.push(format!("{kind}: the board is slowed down by heat"));
        }
    }
    for (zone, name, now) in &zones {
        let trips = (0..16).map_while(|at| {
            let of = |what| file(zone, &format!("trip_point_{at}_{what}"));
            Some((tree.read(of("type")).ok()?, tree.number(of("temp"))))
        });
        let slowing = trips.filter(|(kind, _)| ["passive", "hot", "critical"].contains(&&**kind));
        // Throttling begins at the lowest of them.
        let slows = slowing.filter_map(|(_, at)| at).filter(|at| *at > 0).min();
        if let Some(at) = slows.filter(|at| now >= at) {
            let (now, at) = (now / 1000, at / 1000);
            slowed.push(format!(
                "{name} is at {now} C and slows the board down from {at} C on"
            ));
        }
    }
    if slowed.is_empty() {
        found.ok(CHECK, format!("{} C at most ({hottest})", most / 1000));
    }
    for what in slowed {
        found.warn(CHECK, what, COOL);
    }
    supply(tree, found);
}

/// Counts how often the clocks were lowered since boot because of a weak supply.
fn supply(tree: &Tree, found: &mut Findings) {
    const FOLDER: &str = "/sys/class/hwmon";
    let monitors = tree.entries(FOLDER);
    let is_ours = |name: &&String| tree.text(format!("{FOLDER}/{name}/name")) == "soctherm_oc";
    let Some(ours) = monitors.iter().find(is_ours) else {
        return;
    };
    let count = |kind| tree.number(format!("{FOLDER}/{ours}/oc{kind}_event_cnt"));
    let [low, average, instant] = [1, 2, 3].map(|kind| count(kind).unwrap_or(0));
    if (low, average, instant) == (0, 0, 0) {
        return found.ok("supply", "never too weak since the start");
    }
    let what = format!(
        "clocks were lowered for under-voltage {low} times, for average current {average}, for peaks {instant} (oc*_event_cnt)"
    );
    let remedy = "a stronger supply, or a lower power mode";
    found.warn("supply", what, remedy);
}

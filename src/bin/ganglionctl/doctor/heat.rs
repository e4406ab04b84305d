//! Temperatures, and what already slows the board down because of them or of its supply.

use super::finding::Findings;
use super::tree::Tree;

const FOLDER: &str = "/sys/class/thermal";
const CHECK: &str = "temperature";
const COOL: &str = "improve the cooling (is the fan turning? sudo systemctl status nvfancontrol), or take a lower power mode";

/// In thousandths of a degree.
struct Zone {
    name: String,
    temperature: i64,
    /// Where the kernel begins to slow down.
    slows: Option<i64>,
}

impl Zone {
    /// Nothing of a zone that is asleep: its temperature cannot be read.
    fn read(tree: &Tree, zone: &str) -> Option<Self> {
        let file = |name: &str| format!("{FOLDER}/{zone}/{name}");
        let trips = (0..16).map_while(|at| {
            let kind = tree.read(file(&format!("trip_point_{at}_type"))).ok()?;
            Some((kind, tree.number(file(&format!("trip_point_{at}_temp")))))
        });
        let slowing = trips.filter(|(kind, _)| ["passive", "hot", "critical"].contains(&&**kind));
        Some(Self {
            slows: slowing.filter_map(|(_, at)| at).filter(|at| *at > 0).min(),
            name: tree.read(file("type")).ok()?,
            temperature: tree.number(file("temp"))?,
        })
    }
}

pub(super) fn check(tree: &Tree, found: &mut Findings) {
    let entries = tree.entries(FOLDER);
    let of = |kind| entries.iter().filter(move |name| name.starts_with(kind));
    let zones = of("thermal_zone").filter_map(|zone| Zone::read(tree, zone));
    let zones: Vec<_> = zones.collect();
    let Some(hottest) = zones.iter().max_by_key(|zone| zone.temperature) else {
        return;
    };
    let mut is_cool = true;
    for alert in of("cooling_device") {
        let kind = tree.text(format!("{FOLDER}/{alert}/type"));
        let state = tree.number(format!("{FOLDER}/{alert}/cur_state"));
        // Others are fans, and limits that also apply without heat.
        if kind.ends_with("-alert") && state > Some(0) {
            is_cool = false;
            let what = format!("{kind}: the board is slowed down by heat");
            found.warn(CHECK, what, COOL);
        }
    }
    for zone in &zones {
        if let Some(at) = zone.slows.filter(|at| zone.temperature >= *at) {
            is_cool = false;
            let (name, now, at) = (&zone.name, zone.temperature / 1000, at / 1000);
            let what = format!("{name} is at {now} C and slows the board down from {at} C on");
            found.warn(CHECK, what, COOL);
        }
    }
    if is_cool {
        let most = hottest.temperature / 1000;
        found.ok(CHECK, format!("{most} C at most ({})", hottest.name));
    }
    supply(tree, found);
}

/// Times since the start that the supply was too weak and the clocks were lowered for it.
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

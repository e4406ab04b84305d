//! Temperatures, and what already slows the board down because of them or of its supply.

use super::finding::Finding;
use super::tree::Tree;

const FOLDER: &str = "/sys/class/thermal";
const CHECK: &str = "temperature";

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
        let slowing =
            trips.filter(|(kind, _)| ["passive", "hot", "critical"].contains(&kind.as_str()));
        Some(Self {
            slows: slowing.filter_map(|(_, at)| at).filter(|at| *at > 0).min(),
            name: tree.read(file("type")).ok()?,
            temperature: tree.number(file("temp"))?,
        })
    }
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let entries = tree.entries(FOLDER);
    let zones = entries
        .iter()
        .filter(|name| name.starts_with("thermal_zone"));
    let zones: Vec<_> = zones.filter_map(|zone| Zone::read(tree, zone)).collect();
    let Some(hottest) = zones.iter().max_by_key(|zone| zone.temperature) else {
        return Vec::new();
    };
    let cool = "improve the cooling (is the fan turning? sudo systemctl status nvfancontrol), or take a lower power mode";
    let mut findings = Vec::new();
    for alert in entries
        .iter()
        .filter(|name| name.starts_with("cooling_device"))
    {
        let kind = tree
            .read(format!("{FOLDER}/{alert}/type"))
            .unwrap_or_default();
        let state = tree.number(format!("{FOLDER}/{alert}/cur_state"));
        // Others are fans, and limits that also apply without heat.
        if kind.ends_with("-alert") && state > Some(0) {
            findings.push(Finding::warn(
                CHECK,
                format!("{kind}: the board is slowed down by heat"),
                cool,
            ));
        }
    }
    let degrees = |thousandths: i64| thousandths / 1000;
    for zone in zones
        .iter()
        .filter(|zone| zone.slows.is_some_and(|at| zone.temperature >= at))
    {
        let (now, at) = (
            degrees(zone.temperature),
            degrees(zone.slows.unwrap_or_default()),
        );
        let what = format!(
            "{} is at {now} C and slows the board down from {at} C on",
            zone.name
        );
        findings.push(Finding::warn(CHECK, what, cool));
    }
    if findings.is_empty() {
        let what = format!(
            "{} C at most ({})",
            degrees(hottest.temperature),
            hottest.name
        );
        findings.push(Finding::ok(CHECK, what));
    }
    findings.extend(supply(tree));
    findings
}

/// Times since the start that the supply was too weak and the clocks were lowered for it.
fn supply(tree: &Tree) -> Option<Finding> {
    const FOLDER: &str = "/sys/class/hwmon";
    let counts = tree.entries(FOLDER).into_iter().filter_map(|monitor| {
        let is_ours = tree
            .read(format!("{FOLDER}/{monitor}/name"))
            .is_ok_and(|name| name == "soctherm_oc");
        let count = |kind: u8| tree.number(format!("{FOLDER}/{monitor}/oc{kind}_event_cnt"));
        is_ours.then(|| {
            (1..=3)
                .map(|kind| count(kind).unwrap_or(0))
                .collect::<Vec<_>>()
        })
    });
    let counts = counts.into_iter().next()?;
    if counts.iter().all(|count| *count == 0) {
        return Some(Finding::ok("supply", "never too weak since the start"));
    }
    let [low, average, instant] = counts[..] else {
        return None;
    };
    let what = format!(
        "clocks were lowered for under-voltage {low} times, for average current {average}, for peaks {instant} (oc*_event_cnt)"
    );
    Some(Finding::warn(
        "supply",
        what,
        "a stronger supply, or a lower power mode",
    ))
}

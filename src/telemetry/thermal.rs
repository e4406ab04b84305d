//! The temperatures of the board, as the kernel shows them below /sys/class/thermal.
//!
//! It judges nothing: which temperature is too high depends on the board.

use std::fs;
use std::path::Path;

/// A thermal zone of the kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct ThermalZone {
    /// The number of the zone: `thermal_zone3` is 3. Several zones may have the same name.
    pub number: u32,
    /// The kernel's name of it: "cpu-thermal", "gpu-thermal".
    pub name: String,
    /// Degrees Celsius.
    pub celsius: f64,
}

/// Reads all zones below `root`, which is `/` for this machine. Zones that cannot be read are left out: those of a device
/// that sleeps. A read can take milliseconds.
#[must_use]
pub fn thermal_zones(root: &Path) -> Vec<ThermalZone> {
    let entries = fs::read_dir(root.join("sys/class/thermal"));
    let zones = entries.into_iter().flatten().filter_map(|entry| {
        let entry = entry.ok()?;
        let folder = entry.file_name();
        let number = folder.to_str()?.strip_prefix("thermal_zone")?;
        let number = number.parse().ok()?;
        let read = |file| fs::read_to_string(entry.path().join(file)).ok();
        let millidegrees: f64 = read("temp")?.trim().parse().ok()?;
        Some(ThermalZone {
            number,
            name: read("type")?.trim().to_owned(),
            celsius: millidegrees / 1e3,
        })
    });
    let mut zones: Vec<_> = zones.collect();
    zones.sort_by_key(|zone| zone.number);
    zones
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_that_can_be_read_are_returned_in_order() {
        let root = tempfile::tempdir().expect("a folder");
        let file = |zone: &str, name: &str, text: &str| {
            let zone = root.path().join("sys/class/thermal").join(zone);
            fs::create_dir_all(&zone).expect("a folder");
            fs::write(zone.join(name), text).expect("a file");
        };
        for (zone, name, temperature) in [
            ("thermal_zone10", "gpu-thermal", "48500\n"),
            ("thermal_zone2", "cpu-thermal", "-1250\n"),
            ("thermal_zone3", "sleeps", "\n"),
        ] {
            file(zone, "type", &format!("{name}\n"));
            file(zone, "temp", temperature);
        }
        file("cooling_device0", "type", "pwm-fan\n");
        let zone = |number, name: &str, celsius| ThermalZone {
            number,
            name: name.into(),
            celsius,
        };
        assert_eq!(
            thermal_zones(root.path()),
            [zone(2, "cpu-thermal", -1.25), zone(10, "gpu-thermal", 48.5)]
        );
        assert_eq!(thermal_zones(&root.path().join("none")), []);
    }
}

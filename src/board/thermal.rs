//! Temperatures, and the alerts with which the board says that heat slows it down.

use std::path::PathBuf;

use super::files::Files;

const FOLDER: &str = "sys/class/thermal";
/// Thousandths of degrees Celsius that a sensor can mean.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = -100_000.0..=300_000.0;

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

impl ThermalZone {
    /// Whether it is a zone of the processors: the CPU, the GPU, the rest of the chip, or the hottest of them ("tj-thermal").
    #[must_use]
    pub fn is_of_processor(&self) -> bool {
        let name = self.name.to_ascii_lowercase();
        let starts = ["cpu", "gpu", "soc", "tj", "x86_pkg"];
        starts.iter().any(|start| name.starts_with(start))
    }
}

/// The file of a zone's temperature.
#[derive(Clone, Debug)]
pub(super) struct Zone {
    number: u32,
    name: String,
    path: PathBuf,
}

impl Zone {
    pub(super) fn find(files: &Files) -> Vec<Self> {
        let zones = files.numbered(FOLDER, "thermal_zone").into_iter();
        let zones = zones.filter_map(|(number, path)| {
            let name = files.value(path.join("type"))?;
            let path = path.join("temp");
            Some(Self { number, name, path })
        });
        zones.collect()
    }

    /// Returns `None` for the zone of a device that sleeps.
    pub(super) fn read(&self, files: &Files) -> Option<ThermalZone> {
        let millidegrees: f64 = files.number(&self.path)?;
        PLAUSIBLE.contains(&millidegrees).then(|| ThermalZone {
            number: self.number,
            name: self.name.clone(),
            celsius: millidegrees / 1e3,
        })
    }
}

/// An alert of the board, such as "gpu-throttle-alert".
#[derive(Clone, Debug)]
pub(super) struct Alert {
    name: String,
    path: PathBuf,
}

impl Alert {
    /// Finds those that slow a processor down. Other cooling devices are fans, and limits that also apply without heat.
    pub(super) fn find(files: &Files) -> Vec<Self> {
        let devices = files.numbered(FOLDER, "cooling_device").into_iter();
        let alerts = devices.filter_map(|(_, path)| {
            let name = files.value(path.join("type"))?;
            let path = path.join("cur_state");
            name.ends_with("throttle-alert")
                .then_some(Self { name, path })
        });
        alerts.collect()
    }

    /// Returns its name if it is active.
    pub(super) fn read(&self, files: &Files) -> Option<String> {
        let state: i64 = files.number(&self.path)?;
        (state > 0).then(|| self.name.clone())
    }
}

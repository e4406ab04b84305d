//! How often the board has lowered its clocks since it booted, because of its supply.

use std::path::PathBuf;

use super::files::Files;

const FOLDER: &str = "sys/class/hwmon";

/// Counts since the board has booted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThrottleCounts {
    pub under_voltage: u64,
    pub average_current: u64,
    pub peak_current: u64,
}

impl ThrottleCounts {
    /// Returns each count with its name.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 3] {
        [
            ("under_voltage", self.under_voltage),
            ("average_current", self.average_current),
            ("peak_current", self.peak_current),
        ]
    }
}

/// The folder of the counters.
#[derive(Clone, Debug)]
pub(super) struct ThrottleCounters(PathBuf);

impl ThrottleCounters {
    pub(super) fn find(files: &Files) -> Option<Self> {
        let monitors = files.numbered(FOLDER, "hwmon").into_iter();
        let mut monitors = monitors.map(|(_, path)| path);
        let is_ours = |path: &PathBuf| {
            let name = files.value(path.join("name"));
            name.is_some_and(|name| name == "soctherm_oc")
        };
        monitors.find(is_ours).map(Self)
    }

    /// Returns `None` if no counter can be read.
    pub(super) fn read(&self, files: &Files) -> Option<ThrottleCounts> {
        let [under_voltage, average_current, peak_current] =
            [1, 2, 3].map(|kind| files.number(self.0.join(format!("oc{kind}_event_cnt"))));
        under_voltage.or(average_current).or(peak_current)?;
        Some(ThrottleCounts {
            under_voltage: under_voltage.unwrap_or(0),
            average_current: average_current.unwrap_or(0),
            peak_current: peak_current.unwrap_or(0),
        })
    }
}

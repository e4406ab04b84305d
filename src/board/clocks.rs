//! The clocks of GPU and CPU: their speed, the speed that they may reach at present, and the highest that they have.

use std::path::{Path, PathBuf};

use super::files::Files;

const DEVFREQ: &str = "sys/class/devfreq";
const CPUFREQ: &str = "sys/devices/system/cpu/cpufreq";

/// A clock, in hertz.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    pub now: Option<u64>,
    /// What a power mode, heat or a setting leaves of `highest`.
    pub cap: u64,
    /// What the hardware has; `None` if the kernel does not show it.
    pub highest: Option<u64>,
}

impl Clock {
    /// Whether it may not reach the highest speed that it has.
    #[must_use]
    pub fn is_capped(&self) -> bool {
        self.highest.is_some_and(|highest| self.cap < highest)
    }
}

/// Whether an entry of /sys/class/devfreq is the GPU of an Orin ("17000000.gpu") or of a later board.
#[must_use]
pub fn is_gpu(name: &str) -> bool {
    let device = name.split_once('.').map(|(_, device)| device);
    matches!(device, Some("gpu" | "ga10b")) || name.starts_with("gpu-gpc")
}

/// The files of the GPU's clock.
#[derive(Clone, Debug)]
pub(super) struct GpuClock {
    folder: PathBuf,
    highest: Option<u64>,
}

impl GpuClock {
    pub(super) fn find(files: &Files) -> Option<Self> {
        let mut names = files.names(DEVFREQ).into_iter();
        let name = names.find(|name| is_gpu(name))?;
        let folder = Path::new(DEVFREQ).join(name);
        let listed = files.value(folder.join("available_frequencies"));
        let listed = listed.unwrap_or_default();
        let listed = listed.split_whitespace().flat_map(str::parse);
        let highest = listed.max();
        Some(Self { folder, highest })
    }

    pub(super) fn read(&self, files: &Files) -> Option<Clock> {
        let hertz = |file| files.number(self.folder.join(file));
        Some(Clock {
            now: hertz("cur_freq"),
            cap: hertz("max_freq")?,
            highest: self.highest,
        })
    }
}

/// The files of the clock of some cores.
#[derive(Clone, Debug)]
pub(super) struct CoreClock {
    folder: PathBuf,
}

impl CoreClock {
    pub(super) fn find(files: &Files) -> Vec<Self> {
        let policies = files.numbered(CPUFREQ, "policy").into_iter();
        policies.map(|(_, folder)| Self { folder }).collect()
    }

    fn read(&self, files: &Files) -> Option<Clock> {
        let hertz = |file| {
            let kilohertz: u64 = files.number(self.folder.join(file))?;
            kilohertz.checked_mul(1000)
        };
        Some(Clock {
            now: hertz("scaling_cur_freq"),
            cap: hertz("scaling_max_freq")?,
            highest: hertz("cpuinfo_max_freq"),
        })
    }

    /// Returns the clock of those cores that may reach the least part of their highest speed.
    pub(super) fn most_capped(clocks: &[Self], files: &Files) -> Option<Clock> {
        #[allow(clippy::cast_precision_loss)] // only compared
        let part = |clock: &Clock| match clock.highest {
            Some(highest) if highest > 0 => clock.cap as f64 / highest as f64,
            _ => 1.0,
        };
        let clocks = clocks.iter().filter_map(|clock| clock.read(files));
        clocks.min_by(|one, other| part(one).total_cmp(&part(other)))
    }
}

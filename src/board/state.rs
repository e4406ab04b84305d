//! The board at one moment.

use super::clocks::Clock;
use super::power_mode::PowerMode;
use super::rails::Rail;
use super::thermal::ThermalZone;
use super::throttling::ThrottleCounts;

/// The board at one moment. Values that the kernel does not show are absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BoardState {
    pub power_mode: Option<PowerMode>,
    pub zones: Vec<ThermalZone>,
    /// The active alerts with which heat slows a processor down.
    pub alerts: Vec<String>,
    pub gpu: Option<Clock>,
    /// The clock of the cores that may reach the least part of their highest speed.
    pub cpu: Option<Clock>,
    pub rails: Vec<Rail>,
    /// The power of the module's input.
    pub watts: Option<f64>,
    pub throttling: Option<ThrottleCounts>,
}

impl BoardState {
    /// Returns the hottest zone of the processors.
    #[must_use]
    pub fn hottest(&self) -> Option<&ThermalZone> {
        let zones = self.zones.iter().filter(|zone| zone.is_of_processor());
        zones.max_by(|one, other| one.celsius.total_cmp(&other.celsius))
    }
}

//! The files of a board's sensors, found once and read often.

use std::path::Path;

use super::clocks::{CoreClock, GpuClock};
use super::files::Files;
use super::power_mode::PowerModes;
use super::rails::RailSensor;
use super::state::BoardState;
use super::thermal::{Alert, Zone};
use super::throttling::ThrottleCounters;

/// The sensors of a board. A read can take milliseconds: some of them are behind a bus.
#[derive(Clone, Debug)]
pub struct Sensors {
    files: Files,
    modes: PowerModes,
    zones: Vec<Zone>,
    alerts: Vec<Alert>,
    gpu: Option<GpuClock>,
    cores: Vec<CoreClock>,
    rails: Vec<RailSensor>,
    /// Those of the module's input.
    input: Vec<RailSensor>,
    throttling: Option<ThrottleCounters>,
}

impl Sensors {
    /// Finds the sensors below `root`, which is `/` for this machine.
    #[must_use]
    pub fn find(root: &Path) -> Self {
        let files = Files::new(root);
        let rails = RailSensor::find(&files);
        Self {
            modes: PowerModes::find(&files),
            zones: Zone::find(&files),
            alerts: Alert::find(&files),
            gpu: GpuClock::find(&files),
            cores: CoreClock::find(&files),
            input: RailSensor::input(&rails),
            rails,
            throttling: ThrottleCounters::find(&files),
            files,
        }
    }

    /// Whether one of them shows the power of the module's input.
    #[must_use]
    pub fn show_power(&self) -> bool {
        !self.input.is_empty()
    }

    /// Reads all sensors.
    #[must_use]
    pub fn read(&self) -> BoardState {
        let files = &self.files;
        BoardState {
            power_mode: self.modes.read(files),
            zones: self
                .zones
                .iter()
                .filter_map(|one| one.read(files))
                .collect(),
            alerts: self
                .alerts
                .iter()
                .filter_map(|one| one.read(files))
                .collect(),
            gpu: self.gpu.as_ref().and_then(|gpu| gpu.read(files)),
            cpu: CoreClock::most_capped(&self.cores, files),
            rails: self
                .rails
                .iter()
                .filter_map(|one| one.read(files))
                .collect(),
            watts: self.watts(),
            throttling: self.throttling.as_ref().and_then(|one| one.read(files)),
        }
    }

    /// Reads the power of the module's input alone.
    #[must_use]
    pub fn watts(&self) -> Option<f64> {
        RailSensor::sum(&self.input, &self.files)
    }
}

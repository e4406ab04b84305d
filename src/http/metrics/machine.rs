//! Figures that the kernel shows: the resident memory of this process, and temperatures.

use std::fs;
use std::path::Path;

use crate::meminfo;
use crate::telemetry::{ThermalZone, thermal_zones};

#[derive(Clone, Debug, Default)]
pub(super) struct Machine {
    /// Bytes; `None` where the kernel does not show them.
    pub(super) resident: Option<u64>,
    pub(super) zones: Vec<ThermalZone>,
}

impl Machine {
    /// Reads the files of the kernel below `root`, which is `/` for this machine. It can take milliseconds.
    pub(super) fn read(root: &Path) -> Self {
        let status = fs::read_to_string(root.join("proc/self/status"));
        Self {
            resident: status
                .ok()
                .and_then(|status| meminfo::bytes(&status, "VmRSS:")),
            zones: thermal_zones(root),
        }
    }
}

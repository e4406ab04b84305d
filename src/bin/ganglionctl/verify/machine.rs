//! Facts of the machine, without names of hosts and users.

use std::path::Path;

use ganglion::board::Sensors;

use super::found::Results;
use crate::doctor::Machine;

/// Adds the facts that files show. Those of the GPU come from the part that opens it.
pub(super) fn facts(machine: &Machine, results: &mut Results) {
    results.fact("board", machine.name());
    if let Some(release) = machine.release() {
        results.fact("jetson linux", release);
    }
    results.fact("kernel", machine.text("/proc/sys/kernel/osrelease"));
    results.fact("processor", std::env::consts::ARCH);
    if let Some(bytes) = machine.meminfo("MemTotal:") {
        results.fact("memory", format!("{} MiB", bytes >> 20));
    }
    let state = Sensors::find(&machine.path(Path::new("/"))).read();
    if let Some(mode) = state.power_mode {
        results.fact("power mode", format!("{} ({})", mode.name, mode.id));
    }
    if let Some(gpu) = state.gpu {
        results.fact("gpu clock", format!("{} MHz at most", gpu.cap / 1_000_000));
    }
}

//! The checks of `ganglionctl verify`, in their order: what each expects, and what to look at.

/// A check.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) group: &'static str,
    pub(super) name: &'static str,
    pub(super) expected: &'static str,
    /// The file, the command or the section of the manual.
    pub(super) look: &'static str,
}

const fn check(
    group: &'static str,
    name: &'static str,
    expected: &'static str,
    look: &'static str,
) -> Check {
    Check {
        group,
        name,
        expected,
        look,
    }
}

const DEVICES: &str = "devices and memory";
const KERNELS: &str = "kernels";
const SPEED: &str = "speed";
const SERVICE: &str = "life cycle";
const HEAT: &str = "heat";

pub(super) const DEVICE_NODES: &str = "device nodes";
pub(super) const SANDBOX: &str = "GPU in the sandbox";
pub(super) const ADMISSION: &str = "admission";
pub(super) const MANAGED: &str = "managed memory";
pub(super) const CHUNKS: &str = "chunks";
pub(super) const LOAD_PEAK: &str = "load peak";
pub(super) const IMAGE: &str = "sm_87 cubins";
pub(super) const OF_CPU: &str = "operations on the CPU";
pub(super) const OF_GPU: &str = "operations on the GPU";
pub(super) const GRAPH: &str = "decode graph";
pub(super) const ROWS: &str = "rows";
pub(super) const DECODE: &str = "decode";
pub(super) const PROMPT: &str = "prompt";
pub(super) const POWER: &str = "power mode";
pub(super) const ANSWER: &str = "answer";
pub(super) const HOLD: &str = "hold";
pub(super) const RELEASE: &str = "release";
pub(super) const RELOAD: &str = "reload";
pub(super) const RESTART: &str = "restart";
pub(super) const KILL: &str = "kill -9";
pub(super) const HEATED: &str = "long run";

/// All checks, in the order of the report.
#[rustfmt::skip] // a table
pub(super) const CHECKS: &[Check] = &[
    check(DEVICES, DEVICE_NODES, "the unit allows each node that CUDA opens",
        "systemctl cat gangliond (DeviceAllow=), systemd/DEVICES.md"),
    check(DEVICES, SANDBOX, "the GPU opens as the service's user within the limits of the unit",
        "sudo ganglionctl doctor, gangliond(8)"),
    check(DEVICES, ADMISSION, "the configured model is admitted and loads; free memory falls by what was admitted at most",
        "gangliond.toml(5): memory.reserve_mib; src/load/admission.rs"),
    check(DEVICES, MANAGED, "memory attached to a stream has the bytes of GPU and CPU in turn; a busy stream keeps the CPU out",
        "src/device/memory_trial.rs, src/device/arena.rs"),
    check(DEVICES, CHUNKS, "chunks of 512 MiB until only a reserve is left: free memory follows, and all of it returns",
        "src/trial/chunks.rs, journalctl -k"),
    check(DEVICES, LOAD_PEAK, "a load takes at most 1.05 times weights and cache in memory that CPU and GPU share",
        "ganglionctl bench, src/bench/loading.rs"),
    check(KERNELS, IMAGE, "the GPU of an Orin runs the sm_87 cubins", "src/device/image.rs, kernels/build.rs"),
    check(KERNELS, OF_CPU, "each operation and format is within its bound", "gangliond --self-test, src/check/"),
    check(KERNELS, OF_GPU, "each operation and format is within its bound of the CPU's", "gangliond --self-test, src/check/"),
    check(KERNELS, GRAPH, "the text stays the same after each refused driver call, and the graph recovers",
        "src/trial/recordings.rs, src/graph/life.rs"),
    check(KERNELS, ROWS, "conversations that step together have the bits that each has alone",
        "src/trial/rows.rs, kernels/NOTES.md"),
    check(SPEED, DECODE, "at least 80% of the projection for the power mode", "ganglionctl bench, src/projection/"),
    check(SPEED, PROMPT, "at least 80% of the projection for the power mode", "ganglionctl bench, src/projection/"),
    check(SPEED, POWER, "the power mode stays the same, and nothing throttles",
        "org.ganglion.Llm1(5): Device; nvpmodel -q; journalctl -u gangliond (decoding_slowed)"),
    check(SERVICE, ANSWER, "a question has an answer over D-Bus", "ganglionctl status, journalctl -u gangliond"),
    check(SERVICE, HOLD, "HoldAll: from the call to a quiet device, p99 is at most a step and 5 ms",
        "org.ganglion.Llm1(5): HoldAll"),
    check(SERVICE, RELEASE, "Release frees the model, and the next request loads it and has the same answer",
        "org.ganglion.Llm1(5): Release; journalctl -u gangliond (model_unloaded, model_loaded)"),
    check(SERVICE, RELOAD, "systemctl reload applies the configuration; the same answer afterwards",
        "gangliond(8), journalctl -u gangliond"),
    check(SERVICE, RESTART, "systemctl restart: ready again, the same answer", "gangliond(8), journalctl -u gangliond"),
    check(SERVICE, KILL, "systemd starts the daemon again after kill -9, the same answer",
        "systemctl cat gangliond (Restart=), journalctl -u gangliond"),
    check(HEAT, HEATED, "no alert, no throttling, and at the end at least 90% of the first speed",
        "org.ganglion.Llm1(5): Device; gangliond.toml(5): heat.celsius"),
];

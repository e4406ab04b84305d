//! The device nodes that CUDA opens. `device` names the missing one if the driver does not start, and doctor checks all
//! of them.

/// A device node that CUDA needs: the first of these names that exists.
#[derive(Debug)]
pub struct Node {
    pub names: &'static [&'static str],
    /// The group that a system gives it.
    pub group: &'static str,
    /// The remedy if it is missing.
    pub remedy: &'static str,
}

const fn node(names: &'static [&'static str], group: &'static str, remedy: &'static str) -> Node {
    Node {
        names,
        group,
        remedy,
    }
}

/// Returns the access that CUDA needs to a node of this mode, as permission bits of others: reading, and writing unless
/// even the group may only read. Some releases make /dev/nvmap read-only.
#[must_use]
pub const fn needed(mode: u32) -> u32 {
    0o4 | (mode >> 3 & 0o2)
}

/// The firmware's list of boards that a machine is compatible with.
pub const COMPATIBLE: &str = "/proc/device-tree/compatible";

/// Whether the firmware's list names a Jetson.
#[must_use]
pub fn is_jetson(compatible: &str) -> bool {
    compatible.contains("nvidia,tegra")
}

/// The nodes that CUDA opens on an Orin, in order.
#[rustfmt::skip] // a table
pub const JETSON: &[Node] = &[
    node(&["/dev/nvmap"], "video",
        "sudo modprobe nvmap, and see sudo dmesg | grep nvmap; in a container, pass it in"),
    node(&["/dev/nvgpu/igpu0/ctrl", "/dev/nvhost-ctrl-gpu", "/dev/nvhost-gpu"], "video",
        "sudo modprobe nvgpu; see sudo dmesg | grep nvgpu"),
    node(&["/dev/dri/renderD128"], "render",
        "CUDA does not start without the render node (cuInit 801): sudo modprobe nvidia-drm (JetPack 6) or tegra-drm; in a \
         container, pass /dev/dri in"),
    node(&["/dev/host1x-fence"], "video",
        "sudo modprobe host1x-fence; for every start: echo host1x-fence | sudo tee /etc/modules-load.d/host1x-fence.conf"),
];

/// The nodes that CUDA opens for a discrete GPU. The render node may belong to another GPU.
#[rustfmt::skip] // a table
pub const DISCRETE: &[Node] = &[
    node(&["/dev/nvidiactl"], "video", "sudo modprobe nvidia"),
    node(&["/dev/nvidia0"], "video", "sudo nvidia-modprobe"),
    node(&["/dev/nvidia-uvm"], "video", "sudo nvidia-modprobe -u"),
];

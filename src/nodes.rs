//! The device nodes that CUDA opens: what `device` looks at when the driver does not start, and doctor before that.

/// One that CUDA needs: by the first of these names that is there.
#[derive(Debug)]
pub struct Node {
    pub names: &'static [&'static str],
    /// Which group a system gives it.
    pub group: &'static str,
    /// What brings it back.
    pub remedy: &'static str,
}

const fn node(names: &'static [&'static str], group: &'static str, remedy: &'static str) -> Node {
    Node {
        names,
        group,
        remedy,
    }
}

/// What of a node with that mode CUDA needs, as the mode has it of others: reading, and writing unless not even the group
/// may. Some releases let it only read /dev/nvmap.
#[must_use]
pub const fn needed(mode: u32) -> u32 {
    0o4 | (mode >> 3 & 0o2)
}

/// Where firmware says which boards a machine is compatible with.
pub const COMPATIBLE: &str = "/proc/device-tree/compatible";

/// Whether a machine that says so is a Jetson, whatever its drivers have come to yet.
#[must_use]
pub fn is_jetson(compatible: &str) -> bool {
    compatible.contains("nvidia,tegra")
}

/// What CUDA opens on an Orin, in its order.
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

/// The same with a discrete GPU, where the render node may be another's.
#[rustfmt::skip] // a table
pub const DISCRETE: &[Node] = &[
    node(&["/dev/nvidiactl"], "video", "sudo modprobe nvidia"),
    node(&["/dev/nvidia0"], "video", "sudo nvidia-modprobe"),
    node(&["/dev/nvidia-uvm"], "video", "sudo nvidia-modprobe -u"),
];

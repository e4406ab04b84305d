//! Which machine this is.

use super::finding::Finding;
use super::tree::Tree;

/// What the device tree and NVIDIA's release file tell.
#[derive(Clone, Debug, Default)]
pub(super) struct Board {
    /// "NVIDIA Jetson AGX Orin Developer Kit"; empty where there is no device tree.
    pub(super) name: String,
    /// A Tegra: its GPU shares the CPU's memory.
    pub(super) is_jetson: bool,
    /// Has the GPU of an Orin.
    is_orin: bool,
    /// "R36 revision 4.3".
    release: Option<String>,
}

impl Board {
    pub(super) fn read(tree: &Tree) -> Self {
        let device_tree = |file: &str| tree.read(format!("/proc/device-tree/{file}"));
        let compatible = device_tree("compatible").unwrap_or_default();
        let release = tree.read("/etc/nv_tegra_release").ok();
        Self {
            name: device_tree("model").unwrap_or_default(),
            is_jetson: compatible.contains("nvidia,tegra"),
            is_orin: compatible.contains("nvidia,tegra234"),
            release: release.as_deref().and_then(short),
        }
    }

    pub(super) fn check(&self) -> Finding {
        let Self {
            name,
            is_jetson,
            is_orin,
            release,
        } = self;
        if !is_jetson {
            let name = if name.is_empty() {
                std::env::consts::ARCH
            } else {
                name
            };
            return Finding::ok("board", format!("{name}, no Jetson"));
        }
        let Some(release) = release else {
            let what = format!("{name}, and /etc/nv_tegra_release does not tell its release");
            return Finding::warn("board", what, "is this a container? pass the file into it");
        };
        let what = format!("{name}, Jetson Linux {release}");
        if !is_orin {
            let remedy =
                "this build's kernels are for Orin; what is newer compiles its PTX at each start";
            return Finding::warn("board", what, remedy);
        }
        let major = release.trim_start_matches('R').split(' ').next();
        let is_old = major.and_then(|major| major.parse().ok()) < Some(36);
        if is_old {
            return Finding::fail(
                "board",
                what,
                "install JetPack 6.2 (R36.4) or later: CUDA 12.4 is needed",
            );
        }
        Finding::ok("board", what)
    }
}

/// Of "# R36 (release), REVISION: 4.3, GCID: ...".
fn short(release: &str) -> Option<String> {
    let (major, rest) = release
        .trim_start_matches("# ")
        .split_once(" (release), REVISION: ")?;
    let revision = rest.split(',').next()?;
    Some(format!("{major} revision {revision}"))
}

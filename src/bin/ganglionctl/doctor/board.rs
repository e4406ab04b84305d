//! Which machine this is.

use super::finding::Findings;
use super::tree::Tree;

/// What the device tree and NVIDIA's release file tell.
#[derive(Clone, Debug, Default)]
pub(super) struct Board {
    /// "NVIDIA Jetson AGX Orin Developer Kit"; the processor's kind where there is no device tree.
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
        let name = tree.text("/proc/device-tree/model");
        let compatible = tree.text("/proc/device-tree/compatible");
        Self {
            name: match name.as_str() {
                "" => std::env::consts::ARCH.into(),
                _ => name,
            },
            is_jetson: compatible.contains("nvidia,tegra"),
            is_orin: compatible.contains("nvidia,tegra234"),
            release: short(&tree.text("/etc/nv_tegra_release")),
        }
    }

    pub(super) fn check(&self, found: &mut Findings) {
        const CHECK: &str = "board";
        let name = &self.name;
        if !self.is_jetson {
            return found.ok(CHECK, format!("{name}, no Jetson"));
        }
        let Some(release) = &self.release else {
            let what = format!("{name}, and /etc/nv_tegra_release does not tell its release");
            return found.warn(CHECK, what, "is this a container? pass the file into it");
        };
        let what = format!("{name}, Jetson Linux {release}");
        if !self.is_orin {
            let remedy =
                "this build's kernels are for Orin; what is newer compiles its PTX at each start";
            return found.warn(CHECK, what, remedy);
        }
        let major = release.trim_start_matches('R').split(' ').next();
        if major.and_then(|major| major.parse().ok()) < Some(36) {
            let remedy = "install JetPack 6.2 (R36.4) or later: CUDA 12.4 is needed";
            return found.fail(CHECK, what, remedy);
        }
        found.ok(CHECK, what);
    }
}

/// Of "# R36 (release), REVISION: 4.3, GCID: ...".
fn short(release: &str) -> Option<String> {
    let release = release.trim_start_matches("# ");
    let (major, rest) = release.split_once(" (release), REVISION: ")?;
    let revision = rest.split(',').next()?;
    Some(format!("{major} revision {revision}"))
}

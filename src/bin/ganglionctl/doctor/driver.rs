//! The driver and the kernels for its GPU, by opening the device as the daemon does.

use ganglion::config::Backend;
use ganglion::engine::Site;

use super::finding::Finding;

const CHECK: &str = "driver";

/// What the device told, and where a model would lie with it.
pub(super) struct Opened {
    pub(super) findings: Vec<Finding>,
    /// Nothing if there is a GPU that cannot be used.
    pub(super) site: Option<Site>,
}

/// `expected` says that there is a GPU that should work.
#[cfg(feature = "cuda")]
pub(super) fn open(backend: Backend, expected: bool) -> Opened {
    use ganglion::tape::cuda::{Device, Error};

    use super::finding::Mark;

    if backend == Backend::Cpu {
        return cpu("not asked: the configuration says backend = \"cpu\"");
    }
    let needed = expected || backend == Backend::Cuda;
    let device = match Device::open(false) {
        Ok(device) => device,
        // A machine without one lacks nothing: what would bring a driver is for those that have a GPU.
        Err(Error::NoDriver | Error::NoDevice) if !needed => {
            return cpu("none is needed: there is no NVIDIA GPU, and the CPU computes");
        }
        Err(error) => {
            let check = match error {
                Error::NoImage { .. } | Error::NoKernels => "kernels",
                _ => CHECK,
            };
            let findings = vec![Finding::new(Mark::Fail, check, error.to_string())];
            return Opened {
                findings,
                site: None,
            };
        }
    };
    let of = device.properties();
    let (major, minor) = of.capability;
    let memory = if of.integrated {
        "shared with the CPU"
    } else {
        "its own"
    };
    let what = format!(
        "CUDA {}.{}, {}, compute capability {major}.{minor}, {} MiB of memory, {memory}",
        of.driver / 1000,
        of.driver % 1000 / 10,
        of.name,
        of.memory >> 20,
    );
    let mut findings = vec![Finding::ok(CHECK, what)];
    let kernels = device.kernels();
    findings.push(if kernels.contains("PTX") && (major, minor) != (8, 7) {
        let remedy =
            "the driver compiles it at each start: a build with kernels for this GPU starts faster";
        Finding::warn("kernels", format!("the {kernels} was loaded"), remedy)
    } else {
        Finding::ok("kernels", format!("the {kernels} was loaded"))
    });
    let site = if of.integrated {
        Site::Integrated
    } else {
        match device.free_memory() {
            Ok(free) => Site::Discrete(free),
            Err(error) => {
                findings.push(Finding::new(Mark::Fail, CHECK, error.to_string()));
                return Opened {
                    findings,
                    site: None,
                };
            }
        }
    };
    Opened {
        findings,
        site: Some(site),
    }
}

#[cfg(not(feature = "cuda"))]
pub(super) fn open(backend: Backend, expected: bool) -> Opened {
    let what = "this build has no CUDA backend";
    if backend == Backend::Cuda || expected && backend == Backend::Auto {
        let remedy = "install a build with it, or set backend = \"cpu\"";
        let mark = if backend == Backend::Cuda {
            Finding::fail
        } else {
            Finding::warn
        };
        let findings = vec![mark(CHECK, what, remedy)];
        let site = (backend == Backend::Auto).then_some(Site::Cpu);
        return Opened { findings, site };
    }
    cpu(what)
}

fn cpu(what: &str) -> Opened {
    Opened {
        findings: vec![Finding::ok(CHECK, what)],
        site: Some(Site::Cpu),
    }
}

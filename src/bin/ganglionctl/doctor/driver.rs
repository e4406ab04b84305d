//! Checks of the driver, with the kernels for its GPU.

use ganglion::load::{Backend, Target};

use super::finding::Findings;

const DRIVER: &str = "driver";

/// Opens the device as the daemon does, and returns the memory for the model; `None` if there is a GPU that cannot be
/// used. `expected` says that a GPU should work.
#[cfg(feature = "cuda")]
pub(super) fn open(backend: Backend, expected: bool, found: &mut Findings) -> Option<Target> {
    use ganglion::cuda::{Device, Error};

    if backend == Backend::Cpu {
        let what = "not asked: the configuration says backend = \"cpu\"";
        found.ok(DRIVER, what);
        return Some(Target::Cpu);
    }
    let needed = expected || backend == Backend::Cuda;
    let device = match Device::open(false) {
        Ok(device) => device,
        // A machine without a GPU needs no driver.
        Err(Error::NoDriver | Error::NoDevice) if !needed => {
            let what = "none is needed: there is no NVIDIA GPU, and the CPU backend is used";
            found.ok(DRIVER, what);
            return Some(Target::Cpu);
        }
        Err(error) => {
            let of_kernels = matches!(error, Error::NoImage { .. } | Error::NoKernels);
            found.error(if of_kernels { "kernels" } else { DRIVER }, error);
            return None;
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
    found.ok(DRIVER, what);
    let kernels = device.kernels();
    let what = format!("the {kernels} was loaded");
    if device.lacks_kernels_of_its_own() {
        let remedy =
            "the driver compiles it at each start: a build with kernels for this GPU starts faster";
        found.warn("kernels", what, remedy);
    } else {
        found.ok("kernels", what);
    }
    if of.integrated {
        return Some(Target::Integrated);
    }
    let free = device.free_memory();
    let free = free.map_err(|error| found.error(DRIVER, error));
    free.ok().map(Target::Discrete)
}

#[cfg(not(feature = "cuda"))]
pub(super) fn open(backend: Backend, expected: bool, found: &mut Findings) -> Option<Target> {
    let what = "this build has no CUDA backend";
    let remedy = "install a build with it, or set backend = \"cpu\"";
    match backend {
        Backend::Cuda => {
            found.fail(DRIVER, what, remedy);
            return None;
        }
        Backend::Auto if expected => found.warn(DRIVER, what, remedy),
        _ => found.ok(DRIVER, what),
    }
    Some(Target::Cpu)
}

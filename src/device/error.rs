//! The errors of a device, with remedies.

use cudarc::driver::sys::CUresult;

/// Why a call to the device failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(
        "libcuda.so.1 cannot be loaded: install NVIDIA's driver (on a Jetson: the package nvidia-l4t-cuda)"
    )]
    NoDriver,
    #[error("the driver knows CUDA {}.{} and 12.6 is needed: update it (on a Jetson: JetPack 6.2 or later)", .version / 1000, .version % 1000 / 10)]
    OldDriver { version: i32 },
    #[error(
        "the driver finds no CUDA device: there is none, CUDA_VISIBLE_DEVICES hides it, or its kernel module \
         is not loaded (see `sudo dmesg`)"
    )]
    NoDevice,
    #[error(
        "{node} may not be opened: `sudo usermod -aG {group} {user}` and a new login let a person in; \
         a service needs SupplementaryGroups={group}, and where it restricts devices DeviceAllow={node} rw"
    )]
    Permission {
        node: String,
        group: String,
        user: String,
    },
    #[error(
        "no kernels for compute capability {major}.{minor}: this program has {built}; use backend = \"cpu\" here"
    )]
    NoImage {
        major: i32,
        minor: i32,
        built: String,
    },
    #[error(
        "this program was built without kernels, because NVRTC was missing: build it with `make`, or use backend = \"cpu\""
    )]
    NoKernels,
    #[error("GANGLION_CUDA_IMAGE={value:?} is neither \"ptx\" nor \"cubin\"")]
    ImageChoice { value: String },
    #[error("{} MiB of device memory are needed and {} MiB are free: lower kv.context, or stop what else uses the GPU", .need >> 20, .free >> 20)]
    OutOfMemory { need: u64, free: u64 },
    #[error("{call} found no free memory: lower kv.context, or stop what else uses the GPU")]
    NoMemory { call: &'static str },
    #[error("{node} is missing: {remedy}")]
    NoNode {
        node: &'static str,
        remedy: &'static str,
    },
    #[error("the driver does not start ({name}, cuInit {code}): {}", remedy(*.code))]
    NotStarted { name: String, code: u32 },
    #[error("there is no kernel {kernel}")]
    NoKernel { kernel: String },
    #[error("the kernels of {name} in this program are damaged: install it again")]
    DamagedImage { name: &'static str },
    #[error(
        "the kernel {kernel} takes {takes} bytes of parameters, and its launcher passes {passes}"
    )]
    Signature {
        kernel: String,
        takes: usize,
        passes: usize,
    },
    #[error("the kernel {kernel} needs {asked} {what} and an Orin has {limit}")]
    Limit {
        kernel: String,
        what: &'static str,
        asked: usize,
        limit: usize,
    },
    #[error("the memory is in use by the GPU: synchronize its stream first")]
    Busy,
    #[error("the CPU cannot access this memory: {0}")]
    NotReachable(&'static str),
    #[error("a region of {bytes} bytes is not within its memory")]
    Bounds { bytes: usize },
    #[error("a recorded graph holds a node that is not a kernel: {0}")]
    NotAKernel(String),
    #[error("token {sequence} did not arrive though its step has ended")]
    NoToken { sequence: u32 },
    #[error(
        "the driver does not support partitions of a GPU ({call} is missing): update it, or use the whole GPU"
    )]
    NoPartitions { call: &'static str },
    #[error(
        "a partition of {wanted} of the GPU's {have} multiprocessors is impossible: use fewer, at least 1; the driver \
         allocates them in groups, of 8 on an H100"
    )]
    Partition { wanted: u32, have: u32 },
    #[error("CUDA call {call} failed: {name}; see journalctl -k")]
    Driver {
        call: &'static str,
        name: String,
        code: u32,
    },
}

/// The remedies for errors of cuInit, as seen on Jetsons.
const fn remedy(code: u32) -> &'static str {
    match code {
        801 => {
            "the render node or /sys is hidden from this process: a service needs /dev/dri/renderD128 in DeviceAllow= \
             and group render, and /sys must be readable"
        }
        999 => {
            "/dev/nvmap or /dev/nvgpu refuses this process, or the kernel module has failed: a service needs both in \
             DeviceAllow= and group video; see also `sudo dmesg | grep -i nv`"
        }
        802 => "the system is not ready: wait for the driver's own services, then restart this one",
        803 => {
            "the driver's library and its kernel module are of different releases: reboot after the update"
        }
        _ => {
            "a service may hide what it opens, which on a Jetson is /dev/nvmap, /dev/nvgpu, /dev/dri/renderD128, \
             /dev/host1x-fence and /sys; see also `sudo dmesg`"
        }
    }
}

/// Errors after which the context cannot be used. Only a new process helps.
const STICKY: &[CUresult] = &[
    CUresult::CUDA_ERROR_ECC_UNCORRECTABLE,
    CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE,
    CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
    CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
    CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED,
    CUresult::CUDA_ERROR_ASSERT,
    CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR,
    CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION,
    CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
    CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE,
    CUresult::CUDA_ERROR_INVALID_PC,
    CUresult::CUDA_ERROR_LAUNCH_FAILED,
    CUresult::CUDA_ERROR_UNKNOWN,
];

impl Error {
    /// Whether this process can no longer use the device. A step that ended without its token counts, because the progress of
    /// the device is then unknown.
    #[must_use]
    pub fn is_sticky(&self) -> bool {
        match self {
            Self::Driver { code, .. } => STICKY.iter().any(|one| *one as u32 == *code),
            Self::NoToken { .. } => true,
            _ => false,
        }
    }

    /// The driver's name of the error, if it is a driver error.
    #[must_use]
    pub fn driver_error(&self) -> Option<&str> {
        match self {
            Self::Driver { name, .. } | Self::NotStarted { name, .. } => Some(name),
            _ => None,
        }
    }

    pub(super) fn is(&self, result: CUresult) -> bool {
        matches!(self, Self::Driver { code, .. } if *code == result as u32)
    }
}

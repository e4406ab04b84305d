//! A device's primary context, or a partition of it, current on one thread, and the properties of the device.

use std::ffi::CStr;
use std::rc::Rc;

use cudarc::driver::sys::{
    self, CUcontext, CUctx_flags, CUdevice, CUdevice_attribute as Attribute, CUresult,
};

use super::driver::{check, ignore};
use super::error::Error;
use super::partition::Partition;
use super::{Result, open};
use crate::fault::Faults;

/// The CUDA version of the oldest driver, 12.6. Older drivers refuse the PTX of a package's compiler.
const OLDEST_DRIVER: i32 = 12060;

/// The properties of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    pub name: String,
    /// The compute capability; an Orin has (8, 7).
    pub capability: (i32, i32),
    /// The multiprocessors that kernels run on.
    pub multiprocessors: u32,
    /// All multiprocessors of the device.
    pub all_multiprocessors: u32,
    /// Whether the device shares its memory with the CPU.
    pub integrated: bool,
    /// Whether the CPU may access managed memory while a kernel runs. An Orin does not allow it.
    pub concurrent_managed_access: bool,
    /// Total bytes of memory.
    pub memory: u64,
    /// Bytes of shared memory that a block can have.
    pub shared_bytes: usize,
    /// The CUDA version of the driver; 12060 is CUDA 12.6.
    pub driver: i32,
}

/// A device's primary context, or a partition of it. All objects that it creates hold it, so it is released last.
#[derive(Debug)]
pub struct Context {
    device: CUdevice,
    /// The current context. As a pointer it also keeps this type on its thread.
    handle: CUcontext,
    /// `None` for the whole device.
    partition: Option<Partition>,
    properties: Properties,
    emulate_tegra: bool,
    faults: Faults,
}

impl Context {
    /// Opens the first device. With `emulate_tegra`, CPU access to memory of a busy stream is an error, so that tests
    /// on other devices find accesses that would fault on an Orin.
    ///
    /// # Errors
    /// If there is no driver or device, or this process may not use it.
    pub fn open(emulate_tegra: bool) -> Result<Rc<Self>> {
        Self::open_part(emulate_tegra, None)
    }

    /// Opens a partition with this many multiprocessors or a few more; `None` opens the whole device.
    ///
    /// # Errors
    /// As `open`, or if the driver does not support partitions or this size.
    pub fn open_part(emulate_tegra: bool, multiprocessors: Option<u32>) -> Result<Rc<Self>> {
        // SAFETY: it only tries to open libcuda, whose initializers need nothing from the process.
        if !unsafe { sys::is_culib_present() } {
            return Err(Error::NoDriver);
        }
        let mut driver = 0;
        // SAFETY: it writes one integer, and may be called before all other calls.
        check("cuDriverGetVersion", unsafe {
            sys::cuDriverGetVersion(&raw mut driver)
        })
        .map_err(explain)?;
        if driver < OLDEST_DRIVER {
            return Err(Error::OldDriver { version: driver });
        }
        // SAFETY: the flags must be 0.
        check("cuInit", unsafe { sys::cuInit(0) }).map_err(explain)?;
        let mut device = 0;
        // SAFETY: it writes one integer.
        check("cuDeviceGet", unsafe {
            sys::cuDeviceGet(&raw mut device, 0)
        })
        .map_err(explain)?;

        // The thread spins on the mailbox before it waits here, so waiting may sleep.
        let flags = CUctx_flags::CU_CTX_SCHED_BLOCKING_SYNC as u32;
        // SAFETY: `device` comes from the driver.
        let set = check("cuDevicePrimaryCtxSetFlags", unsafe {
            sys::cuDevicePrimaryCtxSetFlags_v2(device, flags)
        });
        match set {
            // A context that is already in use has these flags.
            Err(error) if error.is(CUresult::CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE) => {}
            set => set?,
        }
        let mut context = std::ptr::null_mut();
        // SAFETY: `device` comes from the driver, and `Drop` releases the context.
        check("cuDevicePrimaryCtxRetain", unsafe {
            sys::cuDevicePrimaryCtxRetain(&raw mut context, device)
        })
        .map_err(explain)?;
        let mut opened = Self {
            device,
            handle: context,
            partition: None,
            properties: Properties::default(),
            emulate_tegra,
            faults: Faults::default(),
        };
        opened.make_current()?;
        opened.properties = opened.read_properties(driver)?;
        if let Some(wanted) = multiprocessors {
            opened.narrow(wanted)?;
        }
        Ok(Rc::new(opened))
    }

    /// Restricts the context to a partition, before anything was created in it.
    fn narrow(&mut self, wanted: u32) -> Result<()> {
        let partition = Partition::new(self.device, wanted)?;
        self.handle = partition.context()?;
        self.properties.multiprocessors = partition.multiprocessors();
        self.partition = Some(partition);
        self.make_current()
    }

    /// The partition, unless the context is the whole device.
    pub(super) fn partition(&self) -> Option<&Partition> {
        self.partition.as_ref()
    }

    /// Makes the context current on this thread, which may then use its objects.
    pub fn make_current(&self) -> Result<()> {
        // SAFETY: it is the retained primary context or the partition's, and `Drop` has released neither.
        let result = unsafe { sys::cuCtxSetCurrent(self.handle) };
        check("cuCtxSetCurrent", result)
    }

    #[must_use]
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Whether CPU access to a busy stream's memory is an error.
    #[must_use]
    pub fn emulates_tegra(&self) -> bool {
        self.emulate_tegra
    }

    /// The failures that tests inject.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Free bytes of device memory. On an integrated device the page cache counts as used, so admission reads
    /// /proc/meminfo instead.
    pub fn free_memory(&self) -> Result<u64> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: two integers are written. The current context is this one, because the process opens no other device.
        let result = unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) };
        check("cuMemGetInfo", result).map(|()| free as u64)
    }

    fn read_properties(&self, driver: i32) -> Result<Properties> {
        let mut name = [0_u8; 256];
        // SAFETY: it writes at most 255 bytes and a NUL.
        check("cuDeviceGetName", unsafe {
            sys::cuDeviceGetName(name.as_mut_ptr().cast(), 256, self.device)
        })?;
        let name = CStr::from_bytes_until_nul(&name)
            .map_or_else(|_| "unknown".into(), CStr::to_string_lossy);
        let multiprocessors = self
            .attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?
            .unsigned_abs();
        let mut memory = 0;
        // SAFETY: one integer is written.
        let result = unsafe { sys::cuDeviceTotalMem_v2(&raw mut memory, self.device) };
        check("cuDeviceTotalMem", result)?;
        Ok(Properties {
            name: name.into_owned(),
            capability: (
                self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            multiprocessors,
            all_multiprocessors: multiprocessors,
            integrated: self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED)? != 0,
            concurrent_managed_access: self
                .attribute(Attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS)?
                != 0,
            memory: memory as u64,
            shared_bytes: self
                .attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?
                .unsigned_abs() as usize,
            driver,
        })
    }

    fn attribute(&self, attribute: Attribute) -> Result<i32> {
        let mut value = 0;
        // SAFETY: it writes one integer.
        let result = unsafe { sys::cuDeviceGetAttribute(&raw mut value, attribute, self.device) };
        check("cuDeviceGetAttribute", result).map(|()| value)
    }
}

/// Errors of a driver that cannot open its device nodes. It has no specific error for that.
const NODE_ERRORS: &[CUresult] = &[
    CUresult::CUDA_ERROR_NO_DEVICE,
    CUresult::CUDA_ERROR_OPERATING_SYSTEM,
    CUresult::CUDA_ERROR_NOT_PERMITTED,
    CUresult::CUDA_ERROR_NOT_SUPPORTED,
    CUresult::CUDA_ERROR_UNKNOWN,
];

/// Finds the cause of a driver that does not start.
fn explain(error: Error) -> Error {
    if error.is(CUresult::CUDA_ERROR_STUB_LIBRARY) {
        return Error::NoDriver;
    }
    let may_be_nodes = NODE_ERRORS.iter().any(|result| error.is(*result));
    let node_error = || open::refused().or_else(open::missing);
    match (error, may_be_nodes.then(node_error).flatten()) {
        (_, Some(node_error)) => node_error,
        (error, None) if error.is(CUresult::CUDA_ERROR_NO_DEVICE) => Error::NoDevice,
        (
            Error::Driver {
                call: "cuInit",
                name,
                code,
            },
            None,
        ) => Error::NotStarted { name, code },
        (error, None) => error,
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // The partition is a part of the primary context, so it is dropped first.
        self.partition = None;
        // SAFETY: `open` retained it once, and all objects that held it are gone.
        ignore(unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) });
    }
}

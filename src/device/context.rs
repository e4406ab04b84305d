//! A device's primary context, or a part of it, current on the thread that opened it or took it over, and what the
//! device is.

use std::ffi::CStr;
use std::rc::Rc;

use cudarc::driver::sys::{
    self, CUcontext, CUctx_flags, CUdevice, CUdevice_attribute as Attribute, CUresult,
};

use super::driver::{check, ignore};
use super::partition::Partition;
use super::{Error, Result, open};
use crate::fault::Faults;

/// What a device is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    pub name: String,
    /// Compute capability: (8, 7) is an Orin.
    pub capability: (i32, i32),
    /// That kernels run on: of a partition, its own.
    pub multiprocessors: u32,
    /// That the device has.
    pub all_multiprocessors: u32,
    /// Shares its memory with the CPU.
    pub integrated: bool,
    /// Whether the CPU may touch managed memory while a kernel runs: not on an Orin.
    pub concurrent_managed_access: bool,
    /// Bytes in all.
    pub memory: u64,
    /// Bytes of shared memory that a block may have.
    pub shared_bytes: usize,
    /// What the driver knows: 12060 is CUDA 12.6.
    pub driver: i32,
}

/// A device's primary context, or a part of it. What it makes holds it, so it is given up last.
#[derive(Debug)]
pub struct Context {
    device: CUdevice,
    /// What is made current. Being a pointer, it also keeps this on its thread.
    handle: CUcontext,
    /// `None` if it is the whole device.
    partition: Option<Partition>,
    properties: Properties,
    emulate_tegra: bool,
    faults: Faults,
}

impl Context {
    /// Opens the first device. With `emulate_tegra`, CPU access to memory that a busy stream uses is
    /// refused as an Orin would fault, so that tests can catch it elsewhere.
    ///
    /// # Errors
    /// If there is no driver or device, or this process may not use it.
    pub fn open(emulate_tegra: bool) -> Result<Rc<Self>> {
        Self::open_part(emulate_tegra, None)
    }

    /// The same of so many multiprocessors, or a few more; `None` is all of them.
    ///
    /// # Errors
    /// As `open`; if the driver knows no partitions, or has none of that size.
    pub fn open_part(emulate_tegra: bool, multiprocessors: Option<u32>) -> Result<Rc<Self>> {
        // SAFETY: it only tries to open libcuda, whose initialisers need nothing of the process.
        if !unsafe { sys::is_culib_present() } {
            return Err(Error::NoDriver);
        }
        let mut driver = 0;
        // SAFETY: it writes one integer, and may be called before anything else.
        check("cuDriverGetVersion", unsafe {
            sys::cuDriverGetVersion(&raw mut driver)
        })
        .map_err(explain)?;
        if driver < 12040 {
            return Err(Error::OldDriver { version: driver });
        }
        // SAFETY: flags are 0, as they must be.
        check("cuInit", unsafe { sys::cuInit(0) }).map_err(explain)?;
        let mut device = 0;
        // SAFETY: it writes one integer.
        check("cuDeviceGet", unsafe {
            sys::cuDeviceGet(&raw mut device, 0)
        })
        .map_err(explain)?;

        // The mailbox is spun on before anything waits here, so waiting may sleep.
        let flags = CUctx_flags::CU_CTX_SCHED_BLOCKING_SYNC as u32;
        // SAFETY: `device` is the driver's.
        let set = check("cuDevicePrimaryCtxSetFlags", unsafe {
            sys::cuDevicePrimaryCtxSetFlags_v2(device, flags)
        });
        match set {
            // One that another model already uses has them.
            Err(error) if error.is(CUresult::CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE) => {}
            set => set?,
        }
        let mut context = std::ptr::null_mut();
        // SAFETY: `device` is the driver's; the context is released by `Drop`.
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

    /// Runs on a part of the device from now on; nothing has been made of it yet.
    fn narrow(&mut self, wanted: u32) -> Result<()> {
        let partition = Partition::new(self.device, wanted)?;
        self.handle = partition.context()?;
        self.properties.multiprocessors = partition.multiprocessors();
        self.partition = Some(partition);
        self.make_current()
    }

    /// What its streams are of, if it is not the whole device.
    pub(super) fn partition(&self) -> Option<&Partition> {
        self.partition.as_ref()
    }

    /// Makes it current on this thread, which then may use what it has made.
    pub fn make_current(&self) -> Result<()> {
        // SAFETY: it is the retained primary context or the partition's, and `Drop` has given up neither.
        let result = unsafe { sys::cuCtxSetCurrent(self.handle) };
        check("cuCtxSetCurrent", result)
    }

    #[must_use]
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Whether a busy stream's memory is refused to the CPU rather than waited for.
    #[must_use]
    pub fn emulates_tegra(&self) -> bool {
        self.emulate_tegra
    }

    /// What tests let fail.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Bytes of device memory that are free. On an integrated device the page cache counts as used here,
    /// so admission there reads /proc/meminfo instead.
    pub fn free_memory(&self) -> Result<u64> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: two integers are written. It asks of the context that is current, which is this one: the
        // process opens no other device's.
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

/// How a driver fails that may not open its device nodes: it does not say so itself.
const SHUT_OUT: &[CUresult] = &[
    CUresult::CUDA_ERROR_NO_DEVICE,
    CUresult::CUDA_ERROR_OPERATING_SYSTEM,
    CUresult::CUDA_ERROR_NOT_PERMITTED,
    CUresult::CUDA_ERROR_NOT_SUPPORTED,
    CUresult::CUDA_ERROR_UNKNOWN,
];

/// What stands behind a driver that does not start.
fn explain(error: Error) -> Error {
    if error.is(CUresult::CUDA_ERROR_STUB_LIBRARY) {
        return Error::NoDriver;
    }
    let shut_out = SHUT_OUT.iter().any(|result| error.is(*result));
    let closed = || open::refused().or_else(open::missing);
    match (error, shut_out.then(closed).flatten()) {
        (_, Some(closed)) => closed,
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
        // Before the primary context, of which it is a part.
        self.partition = None;
        // SAFETY: it was retained once by `open`, and all that it made held it and is gone.
        ignore(unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) });
    }
}

//! A kernel that may be launched: its parameters and its geometry are held to what the GPU and an Orin allow.

use std::marker::PhantomData;
use std::rc::Rc;

use cudarc::driver::sys::{
    self, CUfunction, CUfunction_attribute as Attribute, CUlaunchAttribute, CUlaunchAttributeID,
    CUlaunchAttributeValue, CUlaunchConfig,
};

use super::driver::{attempt, check};
use super::module::Module;
use super::{Error, Parameters, Result, Stream};
use crate::fault::Call;

/// Shared memory that a block may have on sm_87, static and dynamic together.
const SHARED_BYTES: usize = 163 << 10;

/// All shared memory that the device has, for kernels that are launched with less where there is less.
pub const ALL_SHARED: usize = usize::MAX;
/// What a kernel is launched among.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// A step's: streams of weights. Each waits for the one before it by itself (`Stopwatch` of `kernels/common.cuh`), and so
    /// may begin while that one ends.
    Step,
    /// A prompt's products, and all others: tiles in shared memory. Each begins when the one before it has ended: blocks that came
    /// earlier would gather where that one leaves room, and the others idle. Not so of few, for which there is room everywhere.
    Prompt,
    /// What lies between these: many small blocks, which fill what a product leaves while it ends.
    Between,
}

impl Family {
    /// Percent of a multiprocessor's shared memory, of which a block may have so many bytes, that is not cache. Between two
    /// kernels that differ a multiprocessor must first run empty: so it is the same for all that run one after another. Where
    /// there is no more than on an Orin, three quarters have no room for the blocks that steps are made for.
    const fn carveout(self, bytes: usize) -> i32 {
        match self {
            Self::Step if bytes > SHARED_BYTES => 75,
            Self::Step | Self::Prompt | Self::Between => 100,
        }
    }
}

/// The first architecture whose kernels can wait by themselves, as its images are named.
const WAITS: usize = 90;

/// Threads of a block.
const THREADS: usize = 1024;

/// How many blocks, of how many threads, with how many bytes of dynamic shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
}

impl Geometry {
    /// `blocks` blocks of `threads` threads.
    #[must_use]
    pub const fn new(blocks: u32, threads: u32) -> Self {
        Self {
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            shared: 0,
        }
    }
}

/// A function on the device that takes one `A`, by value.
#[derive(Debug)]
pub struct Kernel<A> {
    function: CUfunction,
    name: Box<str>,
    threads: usize,
    shared: usize,
    /// Whether it can wait for the kernel before it by itself.
    waits: bool,
    /// Whether it begins while that ends, also where nobody asks for it.
    overlaps: bool,
    _module: Rc<Module>,
    _parameters: PhantomData<fn(A)>,
}

impl<A: Parameters> Kernel<A> {
    pub(super) fn new(
        function: CUfunction,
        name: &str,
        (shared, family): (usize, Family),
        module: &Rc<Module>,
    ) -> Result<Self> {
        let takes = parameter(function)?;
        if takes != size_of::<A>() {
            return Err(Error::Signature {
                kernel: name.into(),
                takes,
                passes: size_of::<A>(),
            });
        }
        let own = attribute(function, Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
        let shared = if shared == ALL_SHARED {
            module.shared_bytes().saturating_sub(own)
        } else {
            within(
                name,
                "bytes of shared memory a block",
                own + shared,
                SHARED_BYTES,
            )?;
            shared
        };
        let allowed = i32::try_from(shared).map_err(|_| Error::Bounds { bytes: shared })?;
        // SAFETY: the function's module is held.
        let result = unsafe {
            sys::cuFuncSetAttribute(
                function,
                Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                allowed,
            )
        };
        check("cuFuncSetAttribute", result)?;
        // SAFETY: as above.
        let result = unsafe {
            sys::cuFuncSetAttribute(
                function,
                Attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                family.carveout(module.shared_bytes()),
            )
        };
        check("cuFuncSetAttribute", result)?;
        // SAFETY: as above. Loaded now, for a capture is no time to load code.
        check("cuFuncLoad", unsafe { sys::cuFuncLoad(function) })?;
        Ok(Self {
            function,
            name: name.into(),
            threads: attribute(function, Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?
                .min(THREADS),
            shared,
            // What was compiled for an earlier one does not wait, wherever it runs.
            waits: attribute(function, Attribute::CU_FUNC_ATTRIBUTE_PTX_VERSION)? >= WAITS,
            overlaps: family != Family::Prompt,
            _module: Rc::clone(module),
            _parameters: PhantomData,
        })
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Tells it from every other one that is loaded.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.function as u64
    }

    /// Bytes of dynamic shared memory that a launch may ask for.
    #[must_use]
    pub fn shared(&self) -> usize {
        self.shared
    }

    pub(super) fn function(&self) -> CUfunction {
        self.function
    }

    /// Whether it was compiled for the geometry, and an Orin has room for it.
    pub(super) fn check(&self, geometry: Geometry) -> Result<()> {
        let threads = geometry.block.iter().map(|&side| side as usize).product();
        within(&self.name, "threads a block", threads, self.threads)?;
        within(
            &self.name,
            "bytes of dynamic shared memory",
            geometry.shared as usize,
            self.shared,
        )
    }

    /// Queues a launch, or has it recorded; `early`: it may begin while the kernel before it ends, as some always do.
    ///
    /// # Errors
    /// If the geometry exceeds what the kernel was compiled for or an Orin has, or the driver refuses.
    ///
    /// # Safety
    /// Every address in `parameters` must be of memory that the kernel may use as it does with this
    /// geometry, for as long as the launch, or any graph that it is recorded into, can run.
    pub unsafe fn launch(
        &self,
        stream: &mut Stream,
        (geometry, early): (Geometry, bool),
        parameters: &A,
    ) -> Result<()> {
        self.check(geometry)?;
        let Geometry {
            grid,
            block,
            shared,
        } = geometry;
        let mut pointers = [std::ptr::from_ref(parameters).cast_mut().cast()];
        let (call, handle) = ((Call::Launch, "cuLaunchKernelEx"), stream.handle());
        let mut overlap = CUlaunchAttribute {
            id: CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: CUlaunchAttributeValue {
                programmaticStreamSerializationAllowed: 1,
            },
        };
        let config = CUlaunchConfig {
            gridDimX: grid[0],
            gridDimY: grid[1],
            gridDimZ: grid[2],
            blockDimX: block[0],
            blockDimY: block[1],
            blockDimZ: block[2],
            sharedMemBytes: shared,
            hStream: handle,
            attrs: &raw mut overlap,
            numAttrs: (self.waits && (early || self.overlaps)).into(),
        };
        let result = attempt(call, stream.context().faults(), Some(handle), || {
            // SAFETY: the kernel takes one parameter of this size, which `new` checked; the driver copies it
            // before it returns. What the kernel does with it is the caller's promise.
            unsafe {
                sys::cuLaunchKernelEx(
                    &raw const config,
                    self.function,
                    pointers.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            }
        });
        check(call.1, result?)
    }
}

fn within(kernel: &str, what: &'static str, asked: usize, limit: usize) -> Result<()> {
    if asked <= limit {
        return Ok(());
    }
    Err(Error::Limit {
        kernel: kernel.into(),
        what,
        asked,
        limit,
    })
}

/// The size of what a function takes. That it takes one thing is tested of every image.
fn parameter(function: CUfunction) -> Result<usize> {
    let (mut offset, mut size) = (0, 0);
    // SAFETY: the function's module is held; two numbers are written.
    let result = unsafe { sys::cuFuncGetParamInfo(function, 0, &raw mut offset, &raw mut size) };
    check("cuFuncGetParamInfo", result).map(|()| size)
}

fn attribute(function: CUfunction, attribute: Attribute) -> Result<usize> {
    let mut value = 0;
    // SAFETY: the function's module is held; one integer is written.
    check("cuFuncGetAttribute", unsafe {
        sys::cuFuncGetAttribute(&raw mut value, attribute, function)
    })?;
    Ok(usize::try_from(value).unwrap_or(0))
}

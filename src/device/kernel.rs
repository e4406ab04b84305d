//! A kernel. Its parameter and geometry are checked against the GPU and the limits of an Orin.

use std::marker::PhantomData;
use std::rc::Rc;

use cudarc::driver::sys::{
    self, CUfunction, CUfunction_attribute as Attribute, CUlaunchAttribute, CUlaunchAttributeID,
    CUlaunchAttributeValue, CUlaunchConfig,
};

use super::driver::{attempt, check};
use super::error::Error;
use super::module::Module;
use super::stream::Stream;
use super::{Parameters, Result};
use crate::fault::Call;

/// Shared memory of a block on sm_87, static and dynamic together.
const SHARED_BYTES: usize = 163 << 10;

/// All shared memory of the device, for kernels that can also be launched with less.
pub const ALL_SHARED: usize = usize::MAX;
/// The kind of kernels that a kernel runs next to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchOrder {
    /// A kernel of a step, which streams weights. It waits for the last kernel itself (`LaunchTurn` of
    /// `kernels/common.cuh`), so it may start while that one ends.
    Step,
    /// A prompt's product, or any other kernel with tiles in shared memory. It starts after the last kernel has ended:
    /// earlier blocks would collect on some multiprocessors and leave others idle. Small prompts have room everywhere,
    /// so they are an exception.
    Prompt,
    /// A kernel between products: its many small blocks fill the multiprocessors that a product leaves while it ends.
    Between,
}

impl LaunchOrder {
    /// The percentage of a multiprocessor's memory that is shared memory instead of cache, if a block can have `bytes`.
    ///
    /// A multiprocessor has to be empty before the percentage changes, so consecutive kernels have the same. With as
    /// little memory as an Orin, three quarters would not be enough for the blocks of steps.
    const fn carveout(self, bytes: usize) -> i32 {
        match self {
            Self::Step if bytes > SHARED_BYTES => 75,
            Self::Step | Self::Prompt | Self::Between => 100,
        }
    }
}

/// The first architecture whose kernels can wait for the last kernel themselves, as in the names of images.
const WAITS: usize = 90;

/// The most threads of a block.
const THREADS: usize = 1024;

/// The number of blocks, threads of a block, and bytes of dynamic shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
}

impl Geometry {
    /// A geometry with `blocks` blocks of `threads` threads.
    #[must_use]
    pub const fn new(blocks: u32, threads: u32) -> Self {
        Self {
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            shared: 0,
        }
    }
}

/// A function on the device with one parameter `A`, passed by value.
#[derive(Debug)]
pub struct Kernel<A> {
    function: CUfunction,
    name: Box<str>,
    threads: usize,
    shared: usize,
    /// Whether it can wait for the last kernel itself.
    waits: bool,
    /// Whether it always starts while the last kernel ends.
    overlaps: bool,
    _module: Rc<Module>,
    _parameters: PhantomData<fn(A)>,
}

impl<A: Parameters> Kernel<A> {
    pub(super) fn new(
        function: CUfunction,
        name: &str,
        (shared, order): (usize, LaunchOrder),
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
                order.carveout(module.shared_bytes()),
            )
        };
        check("cuFuncSetAttribute", result)?;
        // SAFETY: as above. The function is loaded here, because a capture cannot load code.
        check("cuFuncLoad", unsafe { sys::cuFuncLoad(function) })?;
        Ok(Self {
            function,
            name: name.into(),
            threads: attribute(function, Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?
                .min(THREADS),
            shared,
            // Code for an earlier architecture does not wait, whatever device runs it.
            waits: attribute(function, Attribute::CU_FUNC_ATTRIBUTE_PTX_VERSION)? >= WAITS,
            overlaps: order != LaunchOrder::Prompt,
            _module: Rc::clone(module),
            _parameters: PhantomData,
        })
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A number that differs between loaded kernels.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.function as u64
    }

    /// The most bytes of dynamic shared memory of a launch.
    #[must_use]
    pub fn shared(&self) -> usize {
        self.shared
    }

    pub(super) fn function(&self) -> CUfunction {
        self.function
    }

    /// Checks that the kernel was compiled for a geometry, and that an Orin supports it.
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

    /// Queues or records a launch. With `early` it may start while the last kernel ends; some kernels always do.
    ///
    /// # Errors
    /// If the geometry exceeds the kernel or an Orin, or the driver refuses.
    ///
    /// # Safety
    /// Every address in `parameters` must be valid for what the kernel does with this geometry, as long as the launch,
    /// or any graph that contains it, can run.
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
            // SAFETY: the kernel takes one parameter of this size, which `new` checked, and the driver copies it before
            // it returns. The caller guarantees the addresses in it.
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

/// The size of a function's first parameter. A test checks that each kernel has only one.
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

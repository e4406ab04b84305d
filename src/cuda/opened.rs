//! An opened device for which this build has kernels, before anything is allocated on it.

use std::any::Any;
use std::rc::Rc;

use super::retired::RetiredCuda;
use crate::device::{Context, Error, Modules, Properties};
use crate::executor::{Base, Retired};
use crate::graph::Graph;

/// The context and the kernels. It cannot be cloned, because an executor that uses it may move to another thread.
#[derive(Debug)]
pub struct Device {
    /// The recordings of a retired executor, which the next one continues. They drop before the kernels that they name.
    pub(super) recordings: Option<Base<Graph>>,
    pub(super) modules: Rc<Modules>,
    pub(super) context: Rc<Context>,
}

impl Device {
    /// Opens the first device and loads the kernels. With `emulate_tegra` a discrete device refuses what an Orin would
    /// not allow.
    ///
    /// # Errors
    /// If there is no device, this process may not use it, or this build has no kernels for it.
    pub fn open(emulate_tegra: bool) -> Result<Self, Error> {
        Self::open_part(emulate_tegra, None)
    }

    /// Opens a partition with this many multiprocessors or a few more; `None` opens the whole device.
    ///
    /// # Errors
    /// As `open`, or if the driver has no such partition.
    pub fn open_part(emulate_tegra: bool, multiprocessors: Option<u32>) -> Result<Self, Error> {
        let context = Context::open_part(emulate_tegra, multiprocessors)?;
        let modules = Rc::new(Modules::load(&context)?);
        Ok(Self {
            recordings: None,
            modules,
            context,
        })
    }

    /// Takes the device and the recordings out of a retired executor, of which only the counts stay. Returns `None` if it was
    /// another backend's.
    #[must_use]
    pub fn of_retired(retired: &mut Box<dyn Retired>) -> Option<Self> {
        if !(&**retired as &dyn Any).is::<RetiredCuda>() {
            return None;
        }
        let counts = Base::of_counts(retired.graphs());
        let before: Box<dyn Retired> = std::mem::replace(retired, Box::new(counts));
        let taken: Box<dyn Any> = before;
        let RetiredCuda {
            base,
            modules,
            context,
        } = *taken.downcast().ok()?;
        Some(Self {
            recordings: Some(base),
            modules,
            context,
        })
    }

    /// Gives a device that `of_retired` has taken back, because no executor was made on it.
    pub fn give_back(self, retired: &mut Box<dyn Retired>) {
        if let Some(base) = self.recordings {
            *retired = Box::new(RetiredCuda {
                base,
                modules: self.modules,
                context: self.context,
            });
        }
    }

    #[must_use]
    pub fn properties(&self) -> &Properties {
        self.context.properties()
    }

    /// The name of the kernel images for the device, for people.
    #[must_use]
    pub fn kernels(&self) -> &'static str {
        self.modules.kind()
    }

    /// Whether the driver compiles the kernels at each start, although a build could have included them.
    #[must_use]
    pub fn lacks_kernels_of_its_own(&self) -> bool {
        self.modules.is_ptx() && self.context.properties().capability != (8, 7)
    }

    /// Whether the device shares its memory with the CPU.
    #[must_use]
    pub fn is_integrated(&self) -> bool {
        self.context.properties().integrated
    }

    /// Free bytes of a discrete device's memory.
    pub fn free_memory(&self) -> Result<u64, Error> {
        self.context.free_memory()
    }
}

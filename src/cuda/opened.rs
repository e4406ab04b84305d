//! A device that has been opened and that this build has kernels for, before anything lies on it.

use std::rc::Rc;

use crate::device::{Context, Error, Modules, Properties};

/// What there is to know before a model is loaded. It cannot be cloned: what is loaded with it may go to another thread.
#[derive(Debug)]
pub struct Device {
    pub(super) context: Rc<Context>,
    pub(super) modules: Modules,
}

impl Device {
    /// Opens the first device and loads the kernels. With `emulate_tegra` a discrete one refuses what an Orin
    /// would not allow.
    ///
    /// # Errors
    /// If there is none, this process may not use it, or this build has no kernels for it.
    pub fn open(emulate_tegra: bool) -> Result<Self, Error> {
        Self::open_part(emulate_tegra, None)
    }

    /// The same of so many multiprocessors, or a few more; `None` is all of them.
    ///
    /// # Errors
    /// As `open`; if the driver has no such part.
    pub fn open_part(emulate_tegra: bool, multiprocessors: Option<u32>) -> Result<Self, Error> {
        let context = Context::open_part(emulate_tegra, multiprocessors)?;
        let modules = Modules::load(&context)?;
        Ok(Self { context, modules })
    }

    #[must_use]
    pub fn properties(&self) -> &Properties {
        self.context.properties()
    }

    /// Which of this build's kernels suit it, for people.
    #[must_use]
    pub fn kernels(&self) -> &'static str {
        self.modules.kind()
    }

    /// Whether these have to be compiled at each start, where a build could have had them ready.
    #[must_use]
    pub fn lacks_kernels_of_its_own(&self) -> bool {
        self.modules.is_ptx() && self.context.properties().capability != (8, 7)
    }

    /// Whether it shares its memory with the CPU.
    #[must_use]
    pub fn is_integrated(&self) -> bool {
        self.context.properties().integrated
    }

    /// Bytes that are free of a discrete device's memory.
    pub fn free_memory(&self) -> Result<u64, Error> {
        self.context.free_memory()
    }
}

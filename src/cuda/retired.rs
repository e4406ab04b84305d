//! What stays of a CUDA executor that has released its memory: the device with its loaded kernels, and the executable
//! graphs.
//!
//! An executable graph names functions of loaded kernels, so these stay loaded. The addresses in it are those of released
//! memory: each graph takes the new addresses by an update before its next launch.

use std::rc::Rc;

use crate::device::{Context, Modules};
use crate::executor::{Base, Graphs, Retired};
use crate::graph::Graph;

#[derive(Debug)]
pub(super) struct RetiredCuda {
    // Graphs drop before the kernels that they name.
    pub(super) base: Base<Graph>,
    pub(super) modules: Rc<Modules>,
    pub(super) context: Rc<Context>,
}

impl Retired for RetiredCuda {
    fn graphs(&self) -> &dyn Graphs {
        &self.base
    }

    fn graphs_mut(&mut self) -> &mut dyn Graphs {
        &mut self.base
    }
}

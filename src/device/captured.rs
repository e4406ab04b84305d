//! The result of a capture: a graph of the driver with nodes of any kind.

use std::collections::HashMap;
use std::rc::Rc;

use cudarc::driver::sys::{self, CUgraph, CUgraphEdgeData, CUgraphNode};

use super::Result;
use super::context::Context;
use super::driver::{check, ignore};

/// A graph of the driver.
#[derive(Debug)]
pub struct Captured {
    handle: CUgraph,
    context: Rc<Context>,
}

impl Captured {
    /// Takes ownership of a graph of the driver.
    pub(super) fn new(handle: CUgraph, context: &Rc<Context>) -> Self {
        Self {
            handle,
            context: Rc::clone(context),
        }
    }

    pub(super) fn handle(&self) -> CUgraph {
        self.handle
    }

    pub(super) fn context(&self) -> &Rc<Context> {
        &self.context
    }

    pub(super) fn nodes(&self) -> Result<Vec<CUgraphNode>> {
        let mut count = 0;
        // SAFETY: the graph is ours; without a list the driver only counts.
        check("cuGraphGetNodes", unsafe {
            sys::cuGraphGetNodes(self.handle, std::ptr::null_mut(), &raw mut count)
        })?;
        let mut nodes = vec![std::ptr::null_mut(); count];
        // SAFETY: the list holds `count` nodes.
        check("cuGraphGetNodes", unsafe {
            sys::cuGraphGetNodes(self.handle, nodes.as_mut_ptr(), &raw mut count)
        })?;
        Ok(nodes)
    }

    /// Each node with the node that depends on it.
    pub(super) fn edges(&self) -> Result<HashMap<CUgraphNode, CUgraphNode>> {
        let mut count = 0;
        let no = std::ptr::null_mut();
        // SAFETY: the graph is ours; without lists the driver only counts.
        check("cuGraphGetEdges", unsafe {
            sys::cuGraphGetEdges_v2(self.handle, no, no, std::ptr::null_mut(), &raw mut count)
        })?;
        let mut from = vec![std::ptr::null_mut(); count];
        let mut to = from.clone();
        // The kinds of dependencies, without which the driver refuses to answer.
        let mut kinds = vec![
            CUgraphEdgeData {
                from_port: 0,
                to_port: 0,
                type_: 0,
                reserved: [0; 5],
            };
            count
        ];
        // SAFETY: the lists hold `count` elements each.
        check("cuGraphGetEdges", unsafe {
            sys::cuGraphGetEdges_v2(
                self.handle,
                from.as_mut_ptr(),
                to.as_mut_ptr(),
                kinds.as_mut_ptr(),
                &raw mut count,
            )
        })?;
        Ok(from.into_iter().zip(to).collect())
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        // SAFETY: the graph is ours; executable forms do not need it.
        ignore(unsafe { sys::cuGraphDestroy(self.handle) });
    }
}

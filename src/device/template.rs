//! A recorded chain of kernels, from which executable graphs are made and updated. The parameters of its kernels can be
//! changed, which is much faster than another recording.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsRawFd;
use std::rc::Rc;

use cudarc::driver::sys::{self, CUDA_KERNEL_NODE_PARAMS, CUgraph, CUgraphNode, CUgraphNodeType};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::captured::Captured;
use super::context::Context;
use super::driver::{attempt, check};
use super::error::Error;
use super::kernel::{Geometry, Kernel};
use super::{Parameters, Result};
use crate::fault::Call;

/// A captured graph that is one chain of kernels.
#[derive(Debug)]
pub struct Template {
    graph: Captured,
    /// The nodes in the order of their launches.
    kernels: Vec<CUgraphNode>,
}

impl Template {
    /// # Errors
    /// If there is a node that is not a kernel, if the kernels are not a chain, or if the driver refuses.
    pub fn new(graph: Captured) -> Result<Self> {
        let nodes = graph.nodes()?;
        for node in &nodes {
            let mut kind = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
            // SAFETY: a node of this graph.
            check("cuGraphNodeGetType", unsafe {
                sys::cuGraphNodeGetType(*node, &raw mut kind)
            })?;
            if kind != CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL {
                return Err(Error::NotAKernel(format!("{kind:?}")));
            }
        }
        // The driver does not guarantee the order of its list.
        let edges = graph.edges()?;
        let first = |node: &&CUgraphNode| !edges.values().any(|next| next == *node);
        let first = nodes.iter().find(first).copied();
        let kernels: Vec<_> =
            std::iter::successors(first, |node| edges.get(node).copied()).collect();
        if kernels.len() != nodes.len() {
            return Err(Error::NotAKernel("a fork".into()));
        }
        Ok(Self { graph, kernels })
    }

    /// The number of kernels.
    #[must_use]
    pub fn kernels(&self) -> usize {
        self.kernels.len()
    }

    /// Changes a launch. Executable graphs stay unchanged until they are updated.
    ///
    /// # Errors
    /// If there is no such launch, the geometry exceeds the kernel or an Orin, or the driver refuses. The launch is
    /// then undefined.
    ///
    /// # Safety
    /// As for `Kernel::launch`, as long as any graph that is made or updated from this template can run.
    pub unsafe fn set<A: Parameters>(
        &mut self,
        index: usize,
        kernel: &Kernel<A>,
        geometry: Geometry,
        parameters: &A,
    ) -> Result<()> {
        kernel.check(geometry)?;
        let missing = || Error::NotAKernel(format!("launch {index}, which was not recorded"));
        let node = *self.kernels.get(index).ok_or_else(missing)?;
        let mut pointers = [std::ptr::from_ref(parameters).cast_mut().cast()];
        let Geometry {
            grid,
            block,
            shared,
        } = geometry;
        let launch = CUDA_KERNEL_NODE_PARAMS {
            func: kernel.function(),
            gridDimX: grid[0],
            gridDimY: grid[1],
            gridDimZ: grid[2],
            blockDimX: block[0],
            blockDimY: block[1],
            blockDimZ: block[2],
            sharedMemBytes: shared,
            kernelParams: pointers.as_mut_ptr(),
            extra: std::ptr::null_mut(),
            kern: std::ptr::null_mut(),
            ctx: std::ptr::null_mut(),
        };
        let call = (Call::SetKernel, "cuGraphKernelNodeSetParams");
        let result = attempt(call, self.graph.context().faults(), None, || {
            // SAFETY: the node belongs to this graph. The driver copies the parameter, whose size the kernel has,
            // before it returns. The caller guarantees the addresses in it.
            unsafe { sys::cuGraphKernelNodeSetParams_v2(node, &raw const launch) }
        });
        check(call.1, result?)
    }

    /// The graph in DOT, with each kernel's name, geometry and parameters, read from a file without a name.
    pub fn dot(&self) -> Result<String> {
        let failed = |error: &dyn std::fmt::Display| Error::Driver {
            call: "cuGraphDebugDotPrint",
            name: error.to_string(),
            code: 0,
        };
        let file =
            memfd_create(c"graph.dot", MFdFlags::MFD_CLOEXEC).map_err(|error| failed(&error))?;
        let mut file = File::from(file);
        let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))
            .map_err(|error| failed(&error))?;
        let flags = sys::CUgraphDebugDot_flags::CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS as u32;
        // SAFETY: the graph is ours, and the path ends in a NUL.
        check("cuGraphDebugDotPrint", unsafe {
            sys::cuGraphDebugDotPrint(self.graph.handle(), path.as_ptr(), flags)
        })?;
        let mut dot = String::new();
        file.rewind().map_err(|error| failed(&error))?;
        file.read_to_string(&mut dot)
            .map_err(|error| failed(&error))?;
        Ok(dot)
    }

    pub(super) fn context(&self) -> &Rc<Context> {
        self.graph.context()
    }

    pub(super) fn handle(&self) -> CUgraph {
        self.graph.handle()
    }
}

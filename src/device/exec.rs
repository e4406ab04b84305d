//! What a capture gives, and what can be replayed: the driver's graph and its executable form.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsRawFd;
use std::rc::Rc;

use cudarc::driver::sys::{self, CUgraph, CUgraphExec, CUgraphNode, CUgraphNodeType, CUresult};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::driver::{attempt, check, ignore};
use super::{Context, Error, Result, Stream};
use crate::fault::Call;

/// A recorded graph: a template that cannot run by itself.
#[derive(Debug)]
pub struct Captured {
    handle: CUgraph,
    context: Rc<Context>,
}

impl Captured {
    /// Takes over a graph of the driver's.
    pub(super) fn new(handle: CUgraph, context: &Rc<Context>) -> Self {
        Self {
            handle,
            context: Rc::clone(context),
        }
    }

    /// How many nodes it holds.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn nodes(&self) -> Result<usize> {
        let mut count = 0;
        // SAFETY: the graph is ours; without a list the driver only counts.
        let result =
            unsafe { sys::cuGraphGetNodes(self.handle, std::ptr::null_mut(), &raw mut count) };
        check("cuGraphGetNodes", result).map(|()| count)
    }

    /// How many kernels it holds.
    ///
    /// # Errors
    /// If it holds anything but kernels.
    pub fn kernels(&self) -> Result<usize> {
        let mut count = self.nodes()?;
        let mut nodes: Vec<CUgraphNode> = vec![std::ptr::null_mut(); count];
        // SAFETY: the list holds `count` nodes.
        check("cuGraphGetNodes", unsafe {
            sys::cuGraphGetNodes(self.handle, nodes.as_mut_ptr(), &raw mut count)
        })?;
        for node in nodes {
            let mut kind = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
            // SAFETY: a node of this graph.
            check("cuGraphNodeGetType", unsafe {
                sys::cuGraphNodeGetType(node, &raw mut kind)
            })?;
            if kind != CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL {
                return Err(Error::NotAKernel(format!("{kind:?}")));
            }
        }
        Ok(count)
    }

    /// The graph in DOT, with each kernel's name, geometry and parameters, in a file without a name.
    ///
    /// # Errors
    /// If the driver refuses.
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
            sys::cuGraphDebugDotPrint(self.handle, path.as_ptr(), flags)
        })?;
        let mut dot = String::new();
        file.rewind().map_err(|error| failed(&error))?;
        file.read_to_string(&mut dot)
            .map_err(|error| failed(&error))?;
        Ok(dot)
    }

    /// Makes it executable, which costs the driver memory.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn instantiate(&self) -> Result<Exec> {
        let mut handle = std::ptr::null_mut();
        let call = (Call::Instantiate, "cuGraphInstantiate");
        let result = attempt(call, self.context.faults(), None, || {
            // SAFETY: the graph is ours; the executable form belongs to `Exec`.
            unsafe { sys::cuGraphInstantiateWithFlags(&raw mut handle, self.handle, 0) }
        });
        // Whatever became of it, what was made is given back.
        let exec = (!handle.is_null()).then(|| Exec {
            handle,
            context: Rc::clone(&self.context),
        });
        check(call.1, result?)?;
        exec.ok_or_else(|| Error::NotAKernel("nothing was made of it".into()))
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        // SAFETY: the graph is ours; executable forms do not need it.
        ignore(unsafe { sys::cuGraphDestroy(self.handle) });
    }
}

/// An executable graph.
#[derive(Debug)]
pub struct Exec {
    handle: CUgraphExec,
    context: Rc<Context>,
}

impl Exec {
    /// Makes it do what another recording of the same nodes does; `false` if only a new one can.
    ///
    /// # Errors
    /// If the driver fails otherwise.
    pub fn update(&mut self, captured: &Captured) -> Result<bool> {
        let mut info = sys::CUgraphExecUpdateResultInfo_st {
            result: sys::CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR,
            errorNode: std::ptr::null_mut(),
            errorFromNode: std::ptr::null_mut(),
        };
        let call = (Call::Update, "cuGraphExecUpdate");
        let result = attempt(call, self.context.faults(), None, || {
            // SAFETY: both are ours; `info` is written.
            unsafe { sys::cuGraphExecUpdate_v2(self.handle, captured.handle, &raw mut info) }
        });
        match result? {
            CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE => Ok(false),
            result => check(call.1, result).map(|()| true),
        }
    }

    /// Brings it to the device, so that the first launch does not.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn upload(&mut self, stream: &mut Stream) -> Result<()> {
        let call = (Call::Upload, "cuGraphUpload");
        let result = attempt(call, self.context.faults(), Some(stream.handle()), || {
            // SAFETY: both are ours.
            unsafe { sys::cuGraphUpload(self.handle, stream.handle()) }
        });
        check(call.1, result?)
    }

    /// Queues one run of all its kernels. Whoever launched them into the recording promised that their
    /// addresses stay good.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn launch(&mut self, stream: &mut Stream) -> Result<()> {
        let call = (Call::GraphLaunch, "cuGraphLaunch");
        let result = attempt(call, self.context.faults(), Some(stream.handle()), || {
            // SAFETY: both are ours; the recorded launches' addresses are promised by `Kernel::launch`.
            unsafe { sys::cuGraphLaunch(self.handle, stream.handle()) }
        });
        check(call.1, result?)
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        // SAFETY: ours; a run in flight ends first.
        ignore(unsafe { sys::cuGraphExecDestroy(self.handle) });
    }
}

//! The executable form of a template. It lives as long as the daemon if the driver allows updates.

use std::rc::Rc;

use cudarc::driver::sys::{self, CUgraphExec, CUresult};

use super::Result;
use super::context::Context;
use super::driver::{attempt, check, ignore};
use super::error::Error;
use super::stream::Stream;
use super::template::Template;
use crate::fault::Call;

/// An executable graph.
#[derive(Debug)]
pub struct Exec {
    handle: CUgraphExec,
    context: Rc<Context>,
}

impl Exec {
    /// Makes a template executable, which needs memory of the driver.
    pub fn of(template: &Template) -> Result<Self> {
        let mut handle = std::ptr::null_mut();
        let context = template.context();
        let call = (Call::Instantiate, "cuGraphInstantiate");
        let result = attempt(call, context.faults(), None, || {
            // SAFETY: the graph is ours; the executable form is ours from here on.
            unsafe { sys::cuGraphInstantiateWithFlags(&raw mut handle, template.handle(), 0) }
        });
        // A graph is destroyed even if the call failed.
        let exec = (!handle.is_null()).then(|| Self {
            handle,
            context: Rc::clone(context),
        });
        check(call.1, result?)?;
        exec.ok_or_else(|| Error::NotAKernel("nothing was made of it".into()))
    }

    /// Changes the graph to a template with as many kernels. Returns false if only a new executable graph is possible.
    pub fn update(&mut self, template: &Template) -> Result<bool> {
        let mut info = sys::CUgraphExecUpdateResultInfo_st {
            result: sys::CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR,
            errorNode: std::ptr::null_mut(),
            errorFromNode: std::ptr::null_mut(),
        };
        let call = (Call::Update, "cuGraphExecUpdate");
        let result = attempt(call, self.context.faults(), None, || {
            // SAFETY: both are ours; `info` is written.
            unsafe { sys::cuGraphExecUpdate_v2(self.handle, template.handle(), &raw mut info) }
        });
        match result? {
            CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE => Ok(false),
            result => check(call.1, result).map(|()| true),
        }
    }

    /// Uploads the graph to the device, so that the first launch need not.
    pub fn upload(&mut self, stream: &mut Stream) -> Result<()> {
        let call = (Call::Upload, "cuGraphUpload");
        let result = attempt(call, self.context.faults(), Some(stream.handle()), || {
            // SAFETY: both are ours.
            unsafe { sys::cuGraphUpload(self.handle, stream.handle()) }
        });
        check(call.1, result?)
    }

    /// Queues one run of all its kernels. The recorded launches have promised that their addresses stay valid.
    pub fn launch(&mut self, stream: &mut Stream) -> Result<()> {
        let call = (Call::GraphLaunch, "cuGraphLaunch");
        let result = attempt(call, self.context.faults(), Some(stream.handle()), || {
            // SAFETY: both are ours. `Kernel::launch` requires that recorded addresses stay valid.
            unsafe { sys::cuGraphLaunch(self.handle, stream.handle()) }
        });
        check(call.1, result?)
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        // SAFETY: it is ours, and a run in flight ends first.
        ignore(unsafe { sys::cuGraphExecDestroy(self.handle) });
    }
}

//! What can be replayed: the executable form of a template, which lives as long as the daemon if the driver lets it.

use std::rc::Rc;

use cudarc::driver::sys::{self, CUgraphExec, CUresult};

use super::driver::{attempt, check, ignore};
use super::{Context, Error, Result, Stream, Template};
use crate::fault::Call;

/// An executable graph.
#[derive(Debug)]
pub struct Exec {
    handle: CUgraphExec,
    context: Rc<Context>,
}

impl Exec {
    /// Makes a template executable, which costs the driver memory.
    pub fn of(template: &Template) -> Result<Self> {
        let mut handle = std::ptr::null_mut();
        let context = template.context();
        let call = (Call::Instantiate, "cuGraphInstantiate");
        let result = attempt(call, context.faults(), None, || {
            // SAFETY: the graph is ours; the executable form is ours from here on.
            unsafe { sys::cuGraphInstantiateWithFlags(&raw mut handle, template.handle(), 0) }
        });
        // Whatever became of it, what was made is given back.
        let exec = (!handle.is_null()).then(|| Self {
            handle,
            context: Rc::clone(context),
        });
        check(call.1, result?)?;
        exec.ok_or_else(|| Error::NotAKernel("nothing was made of it".into()))
    }

    /// Makes it do what a template of as many kernels does; `false` if only a new one can.
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

    /// Brings it to the device, so that the first launch does not.
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

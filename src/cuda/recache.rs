//! Replaces the cache of an executor: a model is measured before the types of its cache are selected.

use super::kernels::CacheKernels;
use super::late::Late;
use super::memory::Buffers;
use super::pages::Pages;
use super::scratch::Scratch;
use super::state::Listed;
use super::{Cuda, conversations};
use crate::device::Error;
use crate::tape::{Angles, KvInfo};

impl Cuda {
    /// Replaces the cache and all other memory except the weights. Recordings are dropped.
    ///
    /// # Errors
    /// If the device lacks memory, or has failed. The executor cannot be used then.
    pub fn replace_cache(&mut self, kv: KvInfo, angles: &[Angles]) -> Result<(), Error> {
        self.stream.synchronize()?;
        self.base.renew(&self.options.graph);
        self.pending.clear();
        (self.preempted_step, self.started) = (None, None);
        self.buffers = Buffers::default();
        self.kernels.cache = CacheKernels::of_kinds(&self.modules, self.options.activation, kv)?;
        let memory = self.options.places.kv(self.context.properties().integrated);
        self.pages = Pages::new(&self.context, memory, kv, &mut self.stream)?;
        let widths = (self.vocabulary, self.options.rows);
        self.scratch = Scratch::new(&self.context, angles, kv, widths, &mut self.stream)?;
        if let Some(states) = &mut self.states {
            states.clear();
        }
        self.conversations = conversations(kv, self.states.as_ref());
        self.late = Late::default();
        self.listed = Listed::default();
        self.logits = Vec::new();
        (self.slot, self.sequence, self.idle_since) = (0, 0, None);
        self.kv = kv;
        if let Some(mask) = self.allowed.take() {
            self.send_allowed(&mask)?;
            self.allowed = Some(mask);
        }
        self.send_tables()
    }
}

//! Pinned memory from which threads of the CPU fill device memory in pieces.

use std::rc::Rc;

use super::Result;
use super::context::Context;
use super::pinned::Pinned;

/// Pinned memory in parts of equal length. Unified memory is filled in place and needs none.
#[derive(Debug)]
pub struct Staging {
    pinned: Pinned,
    part: usize,
    parts: usize,
}

impl Staging {
    pub fn new(context: &Rc<Context>, part: usize, parts: usize) -> Result<Self> {
        Ok(Self {
            pinned: Pinned::new(context, part * parts)?,
            part,
            parts,
        })
    }

    /// Returns a part for each thread. A part must not be written while the device copies it; `Arena::write_at` waits
    /// for the copy.
    pub fn parts(&mut self) -> Vec<&mut [u8]> {
        let host = self.pinned.host().as_ptr();
        // SAFETY: the part has this many pinned bytes, which were initialized. `&mut self` excludes other slices, and
        // the device reads them only while `write_at` borrows one of them.
        let bytes = unsafe { std::slice::from_raw_parts_mut(host, self.part * self.parts) };
        bytes.chunks_exact_mut(self.part.max(1)).collect()
    }
}

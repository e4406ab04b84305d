//! Through which the CPU's threads fill device memory, piece by piece.

use std::rc::Rc;

use super::{Context, Pinned, Result};

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

    /// One for each thread. Whoever has the device copy a part waits for that before the part is written again, which
    /// `Arena::write_at` does.
    pub fn parts(&mut self) -> Vec<&mut [u8]> {
        let host = self.pinned.host().as_ptr();
        // SAFETY: that many bytes are pinned there, written once, when they were; `&mut self` keeps out other slices, and
        // the device reads them only while `write_at` has one of them borrowed.
        let bytes = unsafe { std::slice::from_raw_parts_mut(host, self.part * self.parts) };
        bytes.chunks_exact_mut(self.part.max(1)).collect()
    }
}

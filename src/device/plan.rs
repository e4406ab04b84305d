//! Where everything will lie, worked out before anything is allocated. No driver is needed for it.

use super::{Error, Result};

/// No allocation is larger: `NvMap` refuses single large ones on a small Jetson.
pub const CHUNK_BYTES: usize = 512 << 20;
/// Every region starts at a multiple of this, which is more than any load or copy asks for.
const ALIGNMENT: usize = 256;

/// Which memory holds something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// The GPU's own.
    Device,
    /// Managed: one copy that the CPU fills and the GPU then reads, on an integrated device in place.
    Unified,
}

/// A part of planned memory, within one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    pub(super) chunk: usize,
    pub(super) offset: usize,
    pub(super) bytes: usize,
}

impl Region {
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Regions, packed in order into chunks that are as large as what they hold.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    chunks: Vec<usize>,
    /// Nothing more is to lie in the last one.
    ended: bool,
}

impl Plan {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a region of `bytes`.
    ///
    /// # Errors
    /// If it is larger than a chunk: what is larger is split by rows before.
    pub fn add(&mut self, bytes: usize) -> Result<Region> {
        if bytes > CHUNK_BYTES {
            return Err(Error::Bounds { bytes });
        }
        // The driver allocates no chunk of 0 bytes.
        let aligned = bytes.max(1).next_multiple_of(ALIGNMENT);
        match self.chunks.last_mut() {
            Some(chunk) if !self.ended && *chunk + aligned <= CHUNK_BYTES => *chunk += aligned,
            _ => self.chunks.push(aligned),
        }
        self.ended = false;
        let chunk = self.chunks.len() - 1;
        let offset = self.chunks[chunk] - aligned;
        Ok(Region {
            chunk,
            offset,
            bytes,
        })
    }

    /// What is added from now on lies in other chunks than what was added before.
    pub fn end_chunk(&mut self) {
        self.ended = true;
    }

    /// What all chunks need, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.chunks.iter().map(|&bytes| bytes as u64).sum()
    }

    pub(super) fn chunks(&self) -> &[usize] {
        &self.chunks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_lie_aligned_and_apart_in_chunks_no_larger_than_allowed() {
        let mut plan = Plan::new();
        let sizes = [1, 300 << 20, 256, 211 << 20, 1 << 20, CHUNK_BYTES, 77];
        let regions = sizes.map(|bytes| plan.add(bytes).expect("it fits a chunk"));
        for (at, region) in regions.iter().enumerate() {
            assert_eq!(region.offset % ALIGNMENT, 0);
            assert!(region.offset + region.bytes <= plan.chunks[region.chunk]);
            for other in &regions[..at] {
                assert!(
                    other.chunk < region.chunk || other.offset + other.bytes <= region.offset,
                    "{other:?} and {region:?}"
                );
            }
        }
        assert!(plan.chunks.iter().all(|&bytes| bytes <= CHUNK_BYTES));
        let wanted: usize = sizes.iter().sum();
        let slack = plan.bytes() - wanted as u64;
        assert!(
            slack < (sizes.len() * ALIGNMENT) as u64,
            "{slack} bytes of slack"
        );
        assert!(plan.add(CHUNK_BYTES + 1).is_err());
        plan.end_chunk();
        let last = plan.add(1).expect("it is small");
        assert!(regions.iter().all(|region| region.chunk < last.chunk));
    }
}

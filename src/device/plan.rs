//! The layout of memory, computed before anything is allocated. It needs no driver.

use super::Result;
use super::error::Error;

/// The largest allocation: `NvMap` refuses larger ones on a small Jetson.
pub const CHUNK_BYTES: usize = 512 << 20;
/// Every region starts at a multiple of this, which is enough for every load and copy.
const ALIGNMENT: usize = 256;

/// The kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// The GPU's own memory.
    Device,
    /// Managed memory: the CPU fills it and the GPU reads it, in place on an integrated device.
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

/// Regions that are packed in order into chunks. A chunk is as large as its regions.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    chunks: Vec<usize>,
    /// Whether the next region starts a new chunk.
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
    /// If it is larger than a chunk. Callers split larger data by rows.
    pub fn add(&mut self, bytes: usize) -> Result<Region> {
        if bytes > CHUNK_BYTES {
            return Err(Error::Bounds { bytes });
        }
        // The driver does not allocate chunks of 0 bytes.
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

    /// Ends the current chunk, so that later regions are in other chunks.
    pub fn end_chunk(&mut self) {
        self.ended = true;
    }

    /// Bytes of all chunks.
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
    fn regions_are_aligned_and_disjoint_in_chunks_within_the_limit() {
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

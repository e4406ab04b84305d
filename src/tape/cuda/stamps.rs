//! When each operation of a step began and ended, by the device's own clock.

use std::rc::Rc;

use super::queue::Queue;
use crate::device::{Arena, Context, Error, Memory, Plan, Region, Stream};

/// One stamp for each operation, in nanoseconds.
#[derive(Debug)]
pub(super) struct Stamps {
    arena: Arena,
    begins_and_ends: Region,
    address: u64,
}

impl Stamps {
    pub(super) fn new(context: &Rc<Context>, operations: usize) -> Result<Self, Error> {
        let mut plan = Plan::new();
        let bytes = operations * Queue::STAMP_BYTES;
        let begins_and_ends = plan.add(bytes)?;
        let arena = Arena::new(context, Memory::Device, &plan)?;
        let address = arena.address(begins_and_ends)?;
        Ok(Self {
            arena,
            begins_and_ends,
            address,
        })
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// Forgets what was noted.
    pub(super) fn clear(&mut self, stream: &mut Stream) -> Result<(), Error> {
        let stamps = self.begins_and_ends.bytes() / Queue::STAMP_BYTES;
        let mut unset = [0; Queue::STAMP_WORDS];
        unset[0] = u64::MAX;
        let unset: Vec<u8> = unset.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.arena
            .write(self.begins_and_ends, &unset.repeat(stamps), stream)
    }

    /// Begin and end of each operation that ran since they were cleared, in order.
    pub(super) fn read(&self, stream: &mut Stream) -> Result<Vec<(u64, u64)>, Error> {
        let mut bytes = vec![0; self.begins_and_ends.bytes()];
        self.arena.read(self.begins_and_ends, &mut bytes, stream)?;
        let words = bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|word| u64::from_le_bytes(*word));
        let words: Vec<u64> = words.collect();
        let stamps = words.as_chunks::<{ Queue::STAMP_WORDS }>().0;
        let spans = stamps.iter().map(|[begin, ends @ ..]| {
            let end = ends.iter().copied().max().unwrap_or(0);
            (*begin, end)
        });
        Ok(spans.filter(|(begin, end)| begin <= end).collect())
    }
}

//! The begin and end of each operation of a step, by the device's clock.

use std::rc::Rc;

use crate::device::{Arena, Context, Error, MemoryKind, Plan, Region, Stream};
use crate::executor::{Span, Timed};

/// Words of a timestamp: a begin, and ends of which the latest counts, in nanoseconds. See `common.cuh`.
const WORDS: usize = 2048;
const BYTES: usize = 8 * WORDS;

/// The addresses of timestamps.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimestampAddresses {
    address: u64,
    timed: Timed,
    operations: usize,
}

impl TimestampAddresses {
    /// The address for an operation; 0 if it takes no timestamp.
    pub(super) fn of(&self, index: usize) -> u64 {
        let at_an_end = index == 0 || index + 1 == self.operations;
        if self.timed == Timed::Step && !at_an_end {
            return 0;
        }
        self.address + (index * BYTES) as u64
    }
}

/// A timestamp for each operation, in nanoseconds.
#[derive(Debug)]
pub(super) struct Timestamps {
    arena: Arena,
    begins_and_ends: Region,
    addresses: TimestampAddresses,
}

impl Timestamps {
    pub(super) fn new(
        context: &Rc<Context>,
        operations: usize,
        timed: Timed,
    ) -> Result<Self, Error> {
        let mut plan = Plan::new();
        let bytes = operations * BYTES;
        let begins_and_ends = plan.add(bytes)?;
        let arena = Arena::new(context, MemoryKind::Device, &plan)?;
        let address = arena.address(begins_and_ends)?;
        Ok(Self {
            arena,
            begins_and_ends,
            addresses: TimestampAddresses {
                address,
                timed,
                operations,
            },
        })
    }

    pub(super) fn addresses(&self) -> TimestampAddresses {
        self.addresses
    }

    /// Clears all timestamps.
    pub(super) fn clear(&mut self, stream: &mut Stream) -> Result<(), Error> {
        let operations = self.begins_and_ends.bytes() / BYTES;
        let mut unset = [0; WORDS];
        unset[0] = u64::MAX;
        let unset: Vec<u8> = unset.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.arena
            .write(self.begins_and_ends, &unset.repeat(operations), stream)
    }

    /// The begin and end of each operation; `None` if it has not run since `clear`.
    pub(super) fn read(&self, stream: &mut Stream) -> Result<Vec<Option<Span>>, Error> {
        let mut bytes = vec![0; self.begins_and_ends.bytes()];
        self.arena.read(self.begins_and_ends, &mut bytes, stream)?;
        let words = bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|word| u64::from_le_bytes(*word));
        let words: Vec<u64> = words.collect();
        let timestamps = words.as_chunks::<{ WORDS }>().0;
        let spans = timestamps.iter().map(|[begin, ends @ ..]| {
            let end = ends.iter().copied().max().unwrap_or(0);
            (*begin, end)
        });
        Ok(spans
            .map(|span| Some(span).filter(|(begin, end)| begin <= end))
            .collect())
    }
}

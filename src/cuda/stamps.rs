//! When each operation of a step began and ended, by the device's own clock.

use std::rc::Rc;

use crate::device::{Arena, Context, Error, Memory, Plan, Region, Stream};
use crate::tape::{Noted, Span};

/// Words of one stamp: a begin and ends, in nanoseconds, of which the latest counts; `common.cuh`.
const STAMP_WORDS: usize = 2048;
const STAMP_BYTES: usize = 8 * STAMP_WORDS;

/// Where operations note when they begin and end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notes {
    address: u64,
    noted: Noted,
    operations: usize,
}

impl Notes {
    /// Where that operation does; 0 if it does not.
    pub(super) fn of(&self, index: usize) -> u64 {
        let at_an_end = index == 0 || index + 1 == self.operations;
        if self.noted == Noted::Step && !at_an_end {
            return 0;
        }
        self.address + (index * STAMP_BYTES) as u64
    }
}

/// One stamp for each operation, in nanoseconds.
#[derive(Debug)]
pub(super) struct Stamps {
    arena: Arena,
    begins_and_ends: Region,
    notes: Notes,
}

impl Stamps {
    pub(super) fn new(
        context: &Rc<Context>,
        operations: usize,
        noted: Noted,
    ) -> Result<Self, Error> {
        let mut plan = Plan::new();
        let bytes = operations * STAMP_BYTES;
        let begins_and_ends = plan.add(bytes)?;
        let arena = Arena::new(context, Memory::Device, &plan)?;
        let address = arena.address(begins_and_ends)?;
        Ok(Self {
            arena,
            begins_and_ends,
            notes: Notes {
                address,
                noted,
                operations,
            },
        })
    }

    pub(super) fn notes(&self) -> Notes {
        self.notes
    }

    /// Forgets what was noted.
    pub(super) fn clear(&mut self, stream: &mut Stream) -> Result<(), Error> {
        let stamps = self.begins_and_ends.bytes() / STAMP_BYTES;
        let mut unset = [0; STAMP_WORDS];
        unset[0] = u64::MAX;
        let unset: Vec<u8> = unset.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.arena
            .write(self.begins_and_ends, &unset.repeat(stamps), stream)
    }

    /// Begin and end of each operation; `None` if it has not run since they were cleared.
    pub(super) fn read(&self, stream: &mut Stream) -> Result<Vec<Option<Span>>, Error> {
        let mut bytes = vec![0; self.begins_and_ends.bytes()];
        self.arena.read(self.begins_and_ends, &mut bytes, stream)?;
        let words = bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|word| u64::from_le_bytes(*word));
        let words: Vec<u64> = words.collect();
        let stamps = words.as_chunks::<{ STAMP_WORDS }>().0;
        let spans = stamps.iter().map(|[begin, ends @ ..]| {
            let end = ends.iter().copied().max().unwrap_or(0);
            (*begin, end)
        });
        Ok(spans
            .map(|span| Some(span).filter(|(begin, end)| begin <= end))
            .collect())
    }
}

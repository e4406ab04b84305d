//! Copies pages to and from the host while the device computes.
//!
//! The copies are queued on the stream, between earlier and later work. Nothing waits for a copy unless too many are in
//! flight.

use std::collections::VecDeque;
use std::rc::Rc;

use super::Result;
use super::arena::Arena;
use super::context::Context;
use super::error::Error;
use super::event::Event;
use super::pinned::Pinned;
use super::plan::Region;
use super::stream::Stream;

/// Pinned memory in parts of equal length, each for one copy.
#[derive(Debug)]
pub struct Ring {
    // Dropped first: the driver waits for the copies that use it.
    pinned: Pinned,
    part: usize,
    parts: Vec<Part>,
    /// Parts with read regions that were not taken, oldest first.
    read: VecDeque<usize>,
}

#[derive(Debug)]
struct Part {
    /// The end of its copy, if `busy`.
    end: Event,
    busy: bool,
}

impl Ring {
    pub fn new(context: &Rc<Context>, part: usize, parts: usize) -> Result<Self> {
        let new = |_| {
            let end = Event::new(context)?;
            Ok(Part { end, busy: false })
        };
        Ok(Self {
            pinned: Pinned::new(context, part * parts)?,
            part,
            parts: (0..parts).map(new).collect::<Result<_>>()?,
            read: VecDeque::with_capacity(parts),
        })
    }

    /// Queues a copy of a region to the host. Returns false if all parts are in use.
    ///
    /// # Errors
    /// If the region is longer than a part, or the driver refuses.
    pub fn read(&mut self, arena: &Arena, region: Region, stream: &mut Stream) -> Result<bool> {
        let Some(index) = self.free()? else {
            return Ok(false);
        };
        arena.copy_to_pinned(
            region,
            (&mut self.pinned, index * self.part),
            self.part,
            stream,
        )?;
        self.begin(index, stream)?;
        self.read.push_back(index);
        Ok(true)
    }

    /// Returns the oldest region that was read, if its copy has ended.
    pub fn take(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(&index) = self.read.front() else {
            return Ok(None);
        };
        if !self.parts[index].end.is_past()? {
            return Ok(None);
        }
        let bytes = self.host(index).to_vec();
        self.parts[index].busy = false;
        self.read.pop_front();
        Ok(Some(bytes))
    }

    /// Discards regions that were read and not taken.
    pub fn discard(&mut self) {
        // Their parts stay in use until their copies have ended.
        self.read.clear();
    }

    /// Queues a copy of bytes into a region. Returns false if all parts are in use.
    ///
    /// # Errors
    /// If the bytes exceed the region, or the driver refuses.
    pub fn write(
        &mut self,
        arena: &mut Arena,
        region: Region,
        bytes: &[u8],
        stream: &mut Stream,
    ) -> Result<bool> {
        if bytes.len() != self.part {
            return Err(Error::Bounds { bytes: bytes.len() });
        }
        let Some(index) = self.free()? else {
            return Ok(false);
        };
        self.host(index).copy_from_slice(bytes);
        arena.copy_from_pinned(region, (&self.pinned, index * self.part), self.part, stream)?;
        self.begin(index, stream)?;
        Ok(true)
    }

    /// Notes that a copy of a part has been queued.
    fn begin(&mut self, index: usize, stream: &mut Stream) -> Result<()> {
        let part = &mut self.parts[index];
        // The part is in use even if the event fails, which means that the device is lost.
        part.busy = true;
        part.end.record(stream)
    }

    /// A part without a copy and without an untaken region.
    fn free(&mut self) -> Result<Option<usize>> {
        for (index, part) in self.parts.iter_mut().enumerate() {
            if part.busy && !self.read.contains(&index) {
                part.busy = !part.end.is_past()?;
            }
            if !part.busy {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// The memory of a part, whose copy has ended.
    fn host(&mut self, index: usize) -> &mut [u8] {
        // SAFETY: the index is that of a part, and all parts were pinned.
        let host = unsafe { self.pinned.host().as_ptr().add(index * self.part) };
        // SAFETY: the part has this many pinned bytes, which were initialized. `&mut self` excludes other slices. The
        // part has no copy in flight, so the device does not access it.
        unsafe { std::slice::from_raw_parts_mut(host, self.part) }
    }
}

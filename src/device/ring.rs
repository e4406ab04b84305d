//! Through which pages go to the host and come from there while the device computes: nobody waits for a copy, unless there are too
//! many on their way. They are queued on the stream, after what it holds and before whatever comes next.

use std::collections::VecDeque;
use std::rc::Rc;

use super::{Arena, Context, Error, Event, Pinned, Region, Result, Stream};

/// Pinned memory in parts of equal length, each with a copy on its way, or with none.
#[derive(Debug)]
pub struct Ring {
    // Dropped first: the driver waits for the copies that use it.
    pinned: Pinned,
    part: usize,
    parts: Vec<Part>,
    /// Parts that were read into and not taken, the oldest first.
    read: VecDeque<usize>,
}

#[derive(Debug)]
struct Part {
    /// The end of its copy, which has begun when `busy`.
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

    /// Queues that a region is copied to the host, which has as many bytes as a part; false where all parts are in use.
    ///
    /// # Errors
    /// If it is longer, or the driver refuses.
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

    /// The oldest region that was read, once it is there.
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

    /// What was read and not taken is nobody's.
    pub fn forget(&mut self) {
        // They are in use until their copies have ended.
        self.read.clear();
    }

    /// Queues that bytes, which are a part's, are copied into a region; false where all parts are in use.
    ///
    /// # Errors
    /// If they are more than the region, or the driver refuses.
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

    /// A copy of a part has been queued.
    fn begin(&mut self, index: usize, stream: &mut Stream) -> Result<()> {
        let part = &mut self.parts[index];
        // Also if the mark fails, which a device does that is lost.
        part.busy = true;
        part.end.record(stream)
    }

    /// A part that no copy uses, and that nobody is to take.
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

    /// A part as the CPU sees it, whose copy has ended.
    fn host(&mut self, index: usize) -> &mut [u8] {
        // SAFETY: there are as many parts as were pinned, and the index is of one of them.
        let host = unsafe { self.pinned.host().as_ptr().add(index * self.part) };
        // SAFETY: that many bytes are pinned there, written once, when they were; `&mut self` keeps out other slices. The caller has
        // seen the end of the part's copy, or there was none: the device does not touch it.
        unsafe { std::slice::from_raw_parts_mut(host, self.part) }
    }
}

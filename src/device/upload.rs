//! Copies rows from the host to device memory, through pinned memory in pieces.
//!
//! A piece is filled while the one before it is copied. The copies are queued on the stream, so they follow earlier work
//! and precede later work.

use std::rc::Rc;

use super::Result;
use super::arena::{Arena, RowSpans};
use super::context::Context;
use super::error::Error;
use super::event::Event;
use super::pinned::Pinned;
use super::plan::Region;
use super::stream::Stream;

/// Bytes of a piece.
const PIECE: usize = 256 << 10;

/// Two pieces of pinned memory, used in turns.
#[derive(Debug)]
pub struct Upload {
    // Dropped first: the driver waits for the copies that use it.
    pinned: Pinned,
    /// The end of the last copy of each piece.
    copied: [Event; 2],
    next: usize,
}

impl Upload {
    /// Allocates the pinned memory.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn new(context: &Rc<Context>, stream: &mut Stream) -> Result<Self> {
        let mut copied = [Event::new(context)?, Event::new(context)?];
        for event in &mut copied {
            event.record(stream)?;
        }
        Ok(Self {
            pinned: Pinned::new(context, 2 * PIECE)?,
            copied,
            next: 0,
        })
    }

    /// Queues the copy of rows into a region from offset `at` on. `fill(row, bytes)` writes the bytes of a row, counted
    /// from 0.
    ///
    /// # Errors
    /// If the rows exceed the region, a row exceeds a piece, or the driver refuses.
    pub fn rows(
        &mut self,
        (arena, region): (&mut Arena, Region),
        (at, rows): (usize, RowSpans),
        mut fill: impl FnMut(usize, &mut [u8]),
        stream: &mut Stream,
    ) -> Result<()> {
        let RowSpans {
            pitch,
            bytes,
            count,
        } = rows;
        let at_once = PIECE / bytes.max(1);
        if at_once == 0 {
            return Err(Error::Bounds { bytes });
        }
        for first in (0..count).step_by(at_once) {
            let count = at_once.min(count - first);
            let piece = self.next;
            self.next = (piece + 1) % 2;
            self.copied[piece].synchronize()?;
            let filled = self.host(piece)[..count * bytes].chunks_exact_mut(bytes.max(1));
            for (row, bytes) in (first..).zip(filled) {
                fill(row, bytes);
            }
            let (to, from) = ((region, at + first * pitch), (&self.pinned, piece * PIECE));
            arena.copy_rows(to, from, RowSpans { count, ..rows }, stream)?;
            self.copied[piece].record(stream)?;
        }
        Ok(())
    }

    /// The memory of a piece, whose copy has ended.
    fn host(&mut self, piece: usize) -> &mut [u8] {
        // SAFETY: both pieces were pinned.
        let host = unsafe { self.pinned.host().as_ptr().add(piece * PIECE) };
        // SAFETY: the piece has this many pinned bytes, which were initialized. `&mut self` excludes other slices. Its
        // last copy has ended, so the device does not access it.
        unsafe { std::slice::from_raw_parts_mut(host, PIECE) }
    }
}

//! Reads messages without their bodies, which are dropped on arrival at any length.

use std::io;
use std::time::Duration;

use super::{Frames, Received, Wire, is_later, later, received};

impl Wire {
    /// Returns the next message, or `None` after that time.
    pub(crate) fn next_head(&mut self, within: Duration) -> io::Result<Option<Received>> {
        self.frames.next_head(within)
    }
}

impl Frames {
    fn next_head(&mut self, within: Duration) -> io::Result<Option<Received>> {
        let late = later(within);
        let mut head = None;
        let mut body = 0;
        loop {
            if head.is_none()
                && let Some((length, rest)) = received::lengths(&self.read)
                && self.read.len() >= length
            {
                let mut frame: Vec<u8> = self.read.drain(..length).collect();
                // Its body length is set to zero, in either byte order.
                frame[4..8].fill(0);
                let read = Received::read(&frame);
                head = Some(read.ok_or_else(|| io::Error::other("a header that cannot be read"))?);
                body = rest;
            }
            if head.is_some() {
                let dropped = body.min(self.read.len());
                self.read.drain(..dropped);
                body -= dropped;
                if body == 0 {
                    self.descriptors.clear();
                    return Ok(head);
                }
            }
            match self.receive(true) {
                Ok(()) => {}
                Err(error) if is_later(&error) && !late() => {}
                Err(error) if is_later(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}

//! The pages of one slot that are on their way back from the host's memory or the disk.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Instant;

use crate::kv::{Family, PagePlace};
use crate::kv_store::{Arrived, Page};

/// A slot whose pages are being restored. Its generation runs no step until then.
#[derive(Debug)]
pub(super) struct Restore {
    pub(super) slot: usize,
    pub(super) from: PageSource,
    /// The tokens that all of its pages will hold.
    pub(super) tokens: Vec<(u32, Family)>,
    /// The places of all of its pages, in order.
    pub(super) places: Vec<PagePlace>,
    /// The number of pages that have arrived.
    pub(super) arrived: usize,
    /// A page that the device could not take yet.
    pub(super) waits: Option<Page>,
    /// When the last page arrived.
    pub(super) since: Instant,
}

/// Where pages come from.
#[derive(Debug)]
pub(super) enum PageSource {
    /// All pages in order, the bytes of all, and when they were requested.
    Host(VecDeque<Page>, u64, Instant),
    Disk(Receiver<Arrived>),
}

impl Restore {
    /// Returns the next page; `None` if the tokens arrived, which come before the first page.
    pub(super) fn next_page(&mut self) -> Result<Option<Page>, TryRecvError> {
        if let Some(page) = self.waits.take() {
            return Ok(Some(page));
        }
        match &mut self.from {
            PageSource::Host(pages, ..) => {
                let next = pages.pop_front().ok_or(TryRecvError::Disconnected);
                next.map(Some)
            }
            PageSource::Disk(arrived) => Ok(match arrived.try_recv()? {
                Arrived::Sequence(tokens, places) => {
                    (self.tokens, self.places) = (tokens, places);
                    None
                }
                Arrived::Page(bytes) => Some(bytes.into()),
            }),
        }
    }
}

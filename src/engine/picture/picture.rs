//! An image of conversations: its bytes, its plan, the numbers of its rows, and what has been computed of it.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::runner::{Embeddings, ImageTile};
use crate::vision::{ContentHash, Pixels, Plan, Received};

/// The name of an image: whose it is, and what its embeddings depend on. No user finds another user's images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PictureKey {
    pub(crate) user: u32,
    pub(crate) hash: ContentHash,
}

/// An image, once for all conversations of a user that show it.
#[derive(Debug)]
pub(crate) struct Picture {
    pub(crate) key: PictureKey,
    pub(crate) received: Arc<Received>,
    pub(crate) plan: Plan,
    /// The number that stands for each row of its embeddings in a prompt, in the order of the plan's tiles. All are at
    /// least `kv::FIRST_IMAGE_ROW`, and no other image has them.
    pub(crate) rows: Range<u32>,
    /// What the tower reads, from the decoding until the embeddings exist.
    pixels: Mutex<Option<Arc<Pixels>>>,
    /// The embeddings of each tile, while they are cached.
    embeddings: Mutex<Option<Arc<[Embeddings]>>>,
}

impl Picture {
    pub(crate) fn new(
        key: PictureKey,
        received: Arc<Received>,
        plan: Plan,
        rows: Range<u32>,
    ) -> Self {
        Self {
            key,
            received,
            plan,
            rows,
            pixels: Mutex::default(),
            embeddings: Mutex::default(),
        }
    }

    pub(crate) fn pixels(&self) -> Option<Arc<Pixels>> {
        self.pixels.lock().clone()
    }

    pub(crate) fn set_pixels(&self, pixels: Option<Arc<Pixels>>) {
        *self.pixels.lock() = pixels;
    }

    pub(crate) fn embeddings(&self) -> Option<Arc<[Embeddings]>> {
        self.embeddings.lock().clone()
    }

    pub(crate) fn set_embeddings(&self, embeddings: Option<Arc<[Embeddings]>>) {
        *self.embeddings.lock() = embeddings;
    }

    /// Whether neither its pixels nor its embeddings exist, so that it must be decoded before it can be shown.
    pub(crate) fn is_bare(&self) -> bool {
        self.embeddings().is_none() && self.pixels().is_none()
    }

    /// Whether rows of a prompt show it.
    pub(crate) fn is_in(&self, rows: &[u32]) -> bool {
        rows.iter().any(|row| self.rows.contains(row))
    }

    /// Returns the numbers and the grid of each of its tiles.
    pub(crate) fn tiles(&self) -> impl Iterator<Item = ImageTile> + '_ {
        let mut next = self.rows.start;
        self.plan.tiles.iter().map(move |tile| {
            let count = u32::try_from(tile.tokens.count()).unwrap_or(u32::MAX);
            let first = next;
            next = next.saturating_add(count);
            ImageTile {
                rows: first..next,
                grid: [tile.tokens.rows, tile.tokens.columns].map(|side| side as usize),
            }
        })
    }
}

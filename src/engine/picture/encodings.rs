//! The tower of the active model, and the images that it has begun: tile by tile, in parts.

use std::sync::Arc;

use super::picture::{Picture, PictureKey};
use crate::model::tower::Grid;
use crate::runner::{Embeddings, EncodeError, Tower};

/// A tower, and what it has encoded of images that are not complete.
#[derive(Debug, Default)]
pub(crate) struct Encodings {
    tower: Option<Tower>,
    /// The image and the tile that the tower has begun.
    current: Option<(PictureKey, usize)>,
    /// The first tiles of images that others have interrupted.
    begun: Vec<(PictureKey, Vec<Embeddings>)>,
}

/// What has become of an image.
#[derive(Debug)]
pub(crate) enum Advanced {
    /// It was interrupted, and the next call continues.
    Paused,
    /// The embeddings of its tiles.
    Ended(Arc<[Embeddings]>),
    /// Its pixels do not exist.
    Bare,
}

impl Encodings {
    pub(crate) fn new(tower: Option<Tower>) -> Self {
        Self {
            tower,
            ..Self::default()
        }
    }

    /// Continues the encoding of an image, or begins it, until `pauses`, which is called after each part, returns true.
    ///
    /// # Errors
    /// If the tower cannot read the image, or the device fails.
    pub(crate) fn advance(
        &mut self,
        picture: &Picture,
        pauses: &mut dyn FnMut() -> bool,
    ) -> Result<Advanced, EncodeError> {
        let (Some(pixels), Some(tower)) = (picture.pixels(), &mut self.tower) else {
            return Ok(Advanced::Bare);
        };
        let key = picture.key;
        let begun = self.begun.iter().position(|(of, _)| *of == key);
        let mut tiles = begun.map_or_else(Vec::new, |at| self.begun.swap_remove(at).1);
        let planned = &picture.plan.tiles;
        while let Some(tile) = planned.get(tiles.len()) {
            if self.current != Some((key, tiles.len())) || !tower.is_encoding() {
                let patches = |tile: &crate::vision::Tile| tile.patches.count() as usize;
                let first: usize = planned[..tiles.len()].iter().map(patches).sum();
                let values = first * pixels.patch_len..(first + patches(tile)) * pixels.patch_len;
                let grid = Grid {
                    rows: tile.patches.rows as usize,
                    columns: tile.patches.columns as usize,
                };
                self.current = None;
                tower.begin(pixels.patches.get(values).unwrap_or_default(), grid)?;
                self.current = Some((key, tiles.len()));
            }
            if let Some(embeddings) = tower.advance(pauses)? {
                self.current = None;
                tiles.push(embeddings);
                if tiles.len() == planned.len() || !pauses() {
                    continue;
                }
            }
            self.begun.push((key, tiles));
            return Ok(Advanced::Paused);
        }
        Ok(Advanced::Ended(tiles.into()))
    }

    /// Drops what was encoded of images that nobody `wants` any more.
    pub(crate) fn retain(&mut self, wants: impl Fn(PictureKey) -> bool) {
        self.begun.retain(|(key, _)| wants(*key));
        if let (Some(tower), Some((key, _))) = (&mut self.tower, self.current)
            && !wants(key)
        {
            tower.cancel();
            self.current = None;
        }
    }

    /// Whether an image has begun and not ended.
    pub(crate) fn is_busy(&self) -> bool {
        self.current.is_some() || !self.begun.is_empty()
    }
}

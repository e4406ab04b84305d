//! The tower of the active model, and the images that it has begun: tile by tile, in parts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::picture::{Picture, PictureKey};
use crate::executor::{ExecuteError, ImageError};
use crate::model::tower::Grid;
use crate::runner::{Embeddings, EncodeError, Tower};
use crate::vision::Tile;

/// A tower, and what it has encoded of images that are not complete.
#[derive(Debug, Default)]
pub(crate) struct Encodings {
    tower: Option<Tower>,
    /// The image and the tile that the tower has begun.
    current: Option<(PictureKey, usize)>,
    /// Images that are not complete.
    begun: Vec<Begun>,
}

/// An image that is not complete.
#[derive(Debug)]
struct Begun {
    key: PictureKey,
    /// The embeddings of its first tiles.
    tiles: Vec<Embeddings>,
    /// The time that it has taken so far.
    took: Duration,
}

/// What has become of an image.
#[derive(Debug)]
pub(crate) enum Advanced {
    /// It was interrupted, and the next call continues.
    Paused,
    /// The embeddings of its tiles, and the time that it took.
    Ended(Arc<[Embeddings]>, Duration),
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
        let Some(tower) = &mut self.tower else {
            return Err(ExecuteError::from(ImageError::Unsupported).into());
        };
        let Some(pixels) = picture.pixels() else {
            return Ok(Advanced::Bare);
        };
        let (key, since) = (picture.key, Instant::now());
        let at = self.begun.iter().position(|begun| begun.key == key);
        let mut begun = at.map_or_else(
            || Begun {
                key,
                tiles: Vec::new(),
                took: Duration::ZERO,
            },
            |at| self.begun.swap_remove(at),
        );
        let planned = &picture.plan.tiles;
        let patches = |tile: &Tile| usize::try_from(tile.patches.count()).unwrap_or(usize::MAX);
        while let Some(tile) = planned.get(begun.tiles.len()) {
            let index = begun.tiles.len();
            if self.current != Some((key, index)) || !tower.is_encoding() {
                let first: usize = planned[..index].iter().map(patches).sum();
                let values = first * pixels.patch_len..(first + patches(tile)) * pixels.patch_len;
                let grid = Grid {
                    rows: tile.patches.rows as usize,
                    columns: tile.patches.columns as usize,
                };
                self.current = None;
                tower.begin(pixels.patches.get(values).unwrap_or_default(), grid)?;
                self.current = Some((key, index));
            }
            if let Some(embeddings) = tower.advance(pauses)? {
                self.current = None;
                begun.tiles.push(embeddings);
                if begun.tiles.len() == planned.len() || !pauses() {
                    continue;
                }
            }
            begun.took += since.elapsed();
            self.begun.push(begun);
            return Ok(Advanced::Paused);
        }
        let took = begun.took + since.elapsed();
        Ok(Advanced::Ended(begun.tiles.into(), took))
    }

    /// Drops what was encoded of images for which `wants` returns false: no generation shows them any more.
    pub(crate) fn retain(&mut self, wants: impl Fn(PictureKey) -> bool) {
        self.begun.retain(|begun| wants(begun.key));
        if let (Some(tower), Some((key, _))) = (&mut self.tower, self.current)
            && !wants(key)
        {
            tower.cancel();
            self.current = None;
        }
    }

    /// Returns the image of which a tile is in the tower. The tile is lost if another image is continued.
    pub(crate) fn current(&self) -> Option<PictureKey> {
        let tower = self.tower.as_ref().filter(|tower| tower.is_encoding());
        tower.and(self.current).map(|(key, _)| key)
    }

    /// Whether an image has begun and not ended.
    pub(crate) fn is_busy(&self) -> bool {
        self.current.is_some() || !self.begun.is_empty()
    }
}

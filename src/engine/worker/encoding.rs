//! Images of prompts: before a slice shows an image, the tower encodes it, in parts that are preempted as slices are.

use std::sync::Arc;
use std::time::Instant;

use super::preemption::Preemption;
use super::state::Worker;
use crate::engine::generation::state::Generation;
use crate::engine::intake::prepare;
use crate::engine::observe::live::News;
use crate::engine::observe::progress::Phase;
use crate::engine::picture::encodings::Advanced;
use crate::engine::picture::picture::{Picture, PictureKey};
use crate::journal;
use crate::runner::{Embeddings, ImageTile, RunError, TileEmbeddings};

/// A tile that a slice shows.
pub(super) struct Shown {
    tile: ImageTile,
    /// The embeddings of all tiles of its image.
    embeddings: Arc<[Embeddings]>,
    index: usize,
}

impl Shown {
    pub(super) fn embeddings(&self) -> TileEmbeddings<'_> {
        TileEmbeddings {
            rows: self.tile.rows.clone(),
            embeddings: &self.embeddings[self.index],
        }
    }
}

/// Returns the tiles that rows of a prompt show, of images that are encoded.
pub(super) fn shown(pictures: &[Arc<Picture>], rows: &[u32]) -> Vec<Shown> {
    let mut shown = Vec::new();
    for picture in pictures.iter().filter(|picture| picture.is_in(rows)) {
        let Some(embeddings) = picture.embeddings() else {
            continue;
        };
        let tiles = picture.tiles().enumerate().take(embeddings.len());
        shown.extend(tiles.map(|(index, tile)| Shown {
            tile,
            embeddings: embeddings.clone(),
            index,
        }));
    }
    shown
}

/// Returns the first image that rows of a prompt show and that has no embeddings.
pub(super) fn unencoded(pictures: &[Arc<Picture>], rows: &[u32]) -> Option<Arc<Picture>> {
    let lacks = |picture: &&Arc<Picture>| picture.embeddings().is_none() && picture.is_in(rows);
    pictures.iter().find(lacks).cloned()
}

impl Worker<'_> {
    /// Encodes an image of the prompt in a slot, until it is preempted as a slice is. A tile of another image that is in the
    /// tower comes first, unless this prompt is more urgent. `others` is the number of other generations, and `decoding` says
    /// that some of them wait for steps.
    pub(super) fn encode(
        &mut self,
        slot: usize,
        picture: &Arc<Picture>,
        (others, decoding): (usize, bool),
    ) -> Result<(), RunError> {
        if self.embeddings.use_again(picture) {
            return Ok(());
        }
        self.settle()?;
        self.observer.interrupt();
        self.shared.progress.enter(Phase::Prompt);
        // The step that was ahead may have ended this generation.
        let Some(generation) = self.slots.get(slot) else {
            return Ok(());
        };
        let (share, begun) = (self.shared.limits().prefill, Instant::now());
        let before = self.in_tower(generation, picture);
        let is_other = before.is_some();
        let (owner, picture) = before.unwrap_or_else(|| (generation, picture.clone()));
        let (id, client) = (owner.id(), owner.request().client.clone());
        let preemption = Preemption {
            queue: self.queue,
            prefill_times: &self.prefill_times,
            request: generation.request(),
            remaining: generation.prompt().len() - generation.prefilled(),
            is_last: false,
            until: (others > 0).then(|| begun + share.slice),
            slice: share.slice,
        };
        let progress = &self.shared.progress;
        let mut is_preempted = || {
            progress.advance();
            preemption.is_due()
        };
        let advanced = self.encodings.advance(&picture, &mut is_preempted);
        let took = begun.elapsed();
        let waiting = self.least_waiting_for(slot);
        self.prefill_times.add(&client, took, waiting);
        (self.slices).owe_steps(share, client.user, took, decoding);
        progress.advance();
        self.share_energy(&[slot]);
        match advanced {
            Ok(Advanced::Paused) => {}
            Ok(Advanced::Ended(embeddings, took)) => {
                journal::image_encoded(id, client.user, picture.plan.tokens(), took.as_millis());
                self.embeddings.insert(&picture, embeddings);
                self.image_counts.encoded += 1;
                self.shrink_embeddings();
            }
            Ok(Advanced::Bare) => self.decode_again(slot),
            Err(error) => {
                let error = RunError::from(error);
                // The other request begins its image again, and fails itself.
                if !is_other || error.is_fatal() {
                    return self.fail(slot, error);
                }
            }
        }
        Ok(())
    }

    /// Returns the image of which a tile is in the tower, and a generation that shows it, if that is another image than
    /// `picture` of `generation`, and no less urgent. Otherwise two images would displace each other without an end.
    fn in_tower(
        &self,
        generation: &Generation,
        picture: &Picture,
    ) -> Option<(&Generation, Arc<Picture>)> {
        let current = self.encodings.current().filter(|key| *key != picture.key)?;
        let all = self.slots.iter().chain(&self.displaced);
        let shows = all.filter(|one| one.needs_picture(current));
        let owner = shows.max_by_key(|one| one.priority())?;
        if owner.priority() < generation.priority() {
            return None;
        }
        let mut pictures = owner.pictures().iter();
        let picture = pictures.find(|one| one.key == current && one.pixels().is_some())?;
        Some((owner, picture.clone()))
    }

    /// Has the images of a generation decoded again, because neither their pixels nor their embeddings exist. It loses its
    /// slot until then.
    fn decode_again(&mut self, slot: usize) {
        if let Some(generation) = self.take_out(slot) {
            prepare::pixels(self.queue, generation, &self.encoder);
        }
    }

    /// Prepares the images of a generation that has got a slot.
    pub(super) fn place_images(&mut self, slot: usize) -> Result<(), RunError> {
        let Some(generation) = self.slots.get(slot) else {
            return Ok(());
        };
        let pictures = generation.pictures();
        if pictures.is_empty() {
            return Ok(());
        }
        let rest = &generation.prompt()[generation.prefilled()..];
        for picture in pictures {
            let is_encoded = self.embeddings.use_again(picture);
            if is_encoded && generation.is_unanswered() && picture.is_in(rest) {
                self.image_counts.reused += 1;
            }
        }
        let tiles: Vec<_> = pictures
            .iter()
            .flat_map(|picture| picture.tiles())
            .collect();
        let placed = (self.runner).place_images(slot, generation.prompt(), &tiles);
        self.publish_images();
        match placed {
            Ok(()) => Ok(()),
            Err(error) => self.fail(slot, error),
        }
    }

    /// Drops embeddings beyond the limit, except those that a generation needs, or a request that waits or is lent: two requests
    /// with several images would drop each other's, and be lent again, without an end.
    pub(super) fn shrink_embeddings(&mut self) {
        self.shrink_embeddings_to(self.cache_bytes);
    }

    /// Drops embeddings beyond `most` bytes, as `shrink_embeddings`.
    pub(super) fn shrink_embeddings_to(&mut self, most: u64) {
        if self.embeddings.bytes() > most {
            let queued = self.queue.pictures();
            let generations = || self.slots.iter().chain(&self.displaced);
            let is_needed = |key: PictureKey| {
                queued.contains(&key) || generations().any(|one| one.needs_picture(key))
            };
            self.embeddings.shrink(most, is_needed);
        }
        self.publish_images();
    }

    /// Drops what was encoded of images that no generation shows any more.
    pub(super) fn drop_unwanted_images(&mut self) {
        if self.encodings.is_busy() {
            let generations = || self.slots.iter().chain(&self.displaced);
            let shows = |key| generations().any(|one| one.needs_picture(key));
            self.encodings.retain(shows);
        }
    }

    fn publish_images(&mut self) {
        self.image_counts.cache_bytes = self.embeddings.bytes();
        if self.image_counts != self.published_images {
            self.published_images = self.image_counts;
            self.shared.live.publish(News::Images(self.image_counts));
        }
    }
}

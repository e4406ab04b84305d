//! The pictures of all users: finds the picture of an image as received, and allots the numbers of its rows.
//!
//! It keeps no picture alive: prompts, sessions and the cache of embeddings do. It decodes no image.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::picture::{Picture, PictureKey};
use super::sight::Sight;
use crate::engine::caller::request::Refusal;
use crate::kv::FIRST_IMAGE_ROW;
use crate::vision::{self, ImageError, Limits, Plan, Received};

/// Bytes that the decoded images of one user, and of all users, may have while they wait for the tower.
const PIXELS_OF_USER: usize = 128 << 20;
const PIXELS_OF_ALL: usize = 256 << 20;
/// Entries of pictures that do not exist any more are dropped when there are as many more than after the last time.
const SLACK: usize = 64;

/// The pictures of all users.
#[derive(Debug, Default)]
pub(crate) struct Pictures(Mutex<State>);

#[derive(Debug)]
struct State {
    known: HashMap<PictureKey, Weak<Picture>>,
    /// The picture of each image as received, by its address, so that its bytes are hashed once.
    seen: HashMap<usize, Seen>,
    /// The number of entries at which those of dropped pictures are dropped.
    sweep_at: usize,
    /// The first number that may be free.
    next: u32,
    /// Whether all numbers have been allotted once.
    wrapped: bool,
    /// Ranges of numbers that were allotted again, and that the cache has not forgotten.
    reused: Vec<Range<u32>>,
}

#[derive(Debug)]
struct Seen {
    user: u32,
    received: Weak<Received>,
    sight: Weak<Sight>,
    picture: Weak<Picture>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            known: HashMap::new(),
            seen: HashMap::new(),
            sweep_at: SLACK,
            next: FIRST_IMAGE_ROW,
            wrapped: false,
            reused: Vec::new(),
        }
    }
}

/// Returns what becomes of an image for a model.
///
/// # Errors
/// If the model cannot show it in as few tokens as are allowed, or takes no image of its aspect.
pub(crate) fn plan(received: &Received, sight: &Sight) -> Result<Plan, ImageError> {
    let image = received.source().open(&UNLIMITED)?;
    let asked = received.fields.max_tokens.map_or(u64::MAX, u64::from);
    let allowed = asked.min(sight.max_tokens);
    let plan = (sight.processor).plan(image.width(), image.height(), Some(allowed))?;
    let most = plan.tiles.iter().map(|tile| tile.patches.count()).max();
    if most.is_some_and(|patches| patches > sight.most_patches as u64) {
        return Err(ImageError::TooManyTokens {
            needed: plan.tokens(),
            allowed,
        });
    }
    Ok(plan)
}

/// The limits of an image were checked when it was received.
pub(super) const UNLIMITED: Limits = Limits {
    max_pixels: u64::MAX,
    max_bytes: usize::MAX,
};

impl Pictures {
    /// Returns the picture of a user's image. This can take long, because the bytes are hashed the first time.
    ///
    /// # Errors
    /// If the model cannot show the image.
    pub(crate) fn find(
        &self,
        user: u32,
        received: &Arc<Received>,
        sight: &Arc<Sight>,
    ) -> Result<Arc<Picture>, ImageError> {
        if let Some(picture) = self.0.lock().seen(user, received, sight) {
            return Ok(picture);
        }
        let plan = plan(received, sight)?;
        let opened = received.source().open(&UNLIMITED)?;
        let hash = vision::hash(&opened, sight.processor.settings(), &plan);
        let key = PictureKey { user, hash };
        let mut state = self.0.lock();
        let known = state.known.get(&key).and_then(Weak::upgrade);
        let picture = known.unwrap_or_else(|| {
            let rows = state.allot(plan.tokens());
            // The cache of embeddings may keep it longer than any conversation.
            let uncounted = Arc::new(received.uncounted());
            let picture = Picture::new(key, uncounted, plan, rows);
            let picture = Arc::new(picture);
            state.known.insert(key, Arc::downgrade(&picture));
            picture
        });
        let seen = Seen {
            user,
            received: Arc::downgrade(received),
            sight: Arc::downgrade(sight),
            picture: Arc::downgrade(&picture),
        };
        state.seen.insert(Arc::as_ptr(received) as usize, seen);
        state.sweep();
        Ok(picture)
    }

    /// Refuses pixels of a user for which there is no room.
    ///
    /// # Errors
    /// `UserPixels`, `TooManyPixels`.
    pub(crate) fn admit_pixels(&self, user: u32, bytes: u64) -> Result<(), Refusal> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let (mut theirs, mut all) = (bytes, bytes);
        for picture in self.0.lock().known.values().filter_map(Weak::upgrade) {
            let pixels = picture.pixels();
            let held = pixels.map_or(0, |pixels| size_of_val(&pixels.patches[..]));
            all = all.saturating_add(held);
            if picture.key.user == user {
                theirs = theirs.saturating_add(held);
            }
        }
        if theirs > PIXELS_OF_USER {
            let bytes = PIXELS_OF_USER;
            return Err(Refusal::UserPixels { user, bytes });
        }
        if all > PIXELS_OF_ALL {
            let bytes = PIXELS_OF_ALL;
            return Err(Refusal::TooManyPixels { bytes });
        }
        Ok(())
    }

    /// Returns the ranges of numbers that stand for other images than before. The cache must forget them before it serves
    /// any prompt that was queued since.
    pub(crate) fn take_reused(&self) -> Vec<Range<u32>> {
        std::mem::take(&mut self.0.lock().reused)
    }
}

impl State {
    fn seen(
        &self,
        user: u32,
        received: &Arc<Received>,
        sight: &Arc<Sight>,
    ) -> Option<Arc<Picture>> {
        let seen = self.seen.get(&(Arc::as_ptr(received) as usize))?;
        // Another image may have the address of one that was dropped.
        let is_it = std::ptr::eq(seen.received.as_ptr(), Arc::as_ptr(received))
            && seen.received.strong_count() > 0
            && std::ptr::eq(seen.sight.as_ptr(), Arc::as_ptr(sight))
            && seen.sight.strong_count() > 0
            && seen.user == user;
        is_it.then(|| seen.picture.upgrade()).flatten()
    }

    /// Returns consecutive numbers that no living picture has.
    fn allot(&mut self, rows: u64) -> Range<u32> {
        // A plan has at most 65,536 tokens.
        let rows = u32::try_from(rows).unwrap_or(u32::MAX - FIRST_IMAGE_ROW);
        loop {
            let end = self.next.checked_add(rows).filter(|end| *end < u32::MAX);
            let Some(end) = end else {
                self.next = FIRST_IMAGE_ROW;
                self.wrapped = true;
                continue;
            };
            let range = self.next..end;
            if self.wrapped {
                let taken = self.living().find(|other| overlap(other, &range));
                if let Some(taken) = taken {
                    self.next = taken.end;
                    continue;
                }
                self.reused.push(range.clone());
            }
            self.next = end;
            return range;
        }
    }

    fn living(&self) -> impl Iterator<Item = Range<u32>> {
        let known = self.known.values().filter_map(Weak::upgrade);
        known.map(|picture| picture.rows.clone())
    }

    fn sweep(&mut self) {
        if self.known.len() + self.seen.len() < self.sweep_at {
            return;
        }
        self.known.retain(|_, picture| picture.strong_count() > 0);
        self.seen.retain(|_, seen| seen.picture.strong_count() > 0);
        self.sweep_at = 2 * (self.known.len() + self.seen.len()) + SLACK;
    }
}

fn overlap(one: &Range<u32>, other: &Range<u32>) -> bool {
    one.start < other.end && other.start < one.end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vision::{Fields, Format, Processor, Settings};

    fn sight() -> Arc<Sight> {
        Arc::new(Sight {
            processor: Processor::new(Settings::gemma3()).expect("published settings"),
            max_tokens: 1024,
            most_patches: 4096,
        })
    }

    fn grey(bytes: &[u8]) -> Arc<Received> {
        let fields = Fields {
            format: Format::Gray8,
            width: Some(4),
            height: Some(2),
            ..Fields::default()
        };
        Arc::new(Received::new(bytes.into(), fields, ()))
    }

    #[test]
    fn an_image_is_one_picture_for_each_user() {
        let (pictures, sight) = (Pictures::default(), sight());
        let find = |user, image: &Arc<Received>| pictures.find(user, image, &sight).unwrap();
        let image = grey(b"12345678");
        let first = find(1, &image);
        assert_eq!(first.rows, FIRST_IMAGE_ROW..FIRST_IMAGE_ROW + 256);
        assert!(Arc::ptr_eq(&first, &find(1, &image)));
        assert!(Arc::ptr_eq(&first, &find(1, &grey(b"12345678"))));
        assert!(!Arc::ptr_eq(&first, &find(2, &image)));
        assert!(!Arc::ptr_eq(&first, &find(1, &grey(b"12345679"))));
    }

    #[test]
    fn numbers_of_living_pictures_are_not_allotted_again() {
        let (pictures, sight) = (Pictures::default(), sight());
        let first = pictures.find(1, &grey(b"12345678"), &sight).unwrap();
        pictures.0.lock().next = u32::MAX - 256;
        assert!(pictures.take_reused().is_empty());
        let other = pictures.find(1, &grey(b"12345679"), &sight).unwrap();
        let after = first.rows.end..first.rows.end + 256;
        assert_eq!(other.rows, after);
        assert_eq!(pictures.take_reused(), [after]);
        drop(first);
        pictures.0.lock().next = u32::MAX;
        let third = pictures.find(1, &grey(b"12345670"), &sight).unwrap();
        assert_eq!(third.rows.start, FIRST_IMAGE_ROW);
    }
}

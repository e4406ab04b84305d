//! The embeddings of images that stay for later requests: which of them go when there are too many.
//!
//! Only the engine thread adds and removes embeddings. A picture in the cache also keeps its bytes as received, so that a
//! user who shows it again gets the same picture.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use super::picture::{Picture, PictureKey};
use crate::runner::Embeddings;

/// Pictures with embeddings.
#[derive(Debug, Default)]
pub(crate) struct EmbeddingCache {
    entries: Vec<Entry>,
    bytes: u64,
    /// Uses so far.
    uses: u64,
}

#[derive(Debug)]
struct Entry {
    picture: Arc<Picture>,
    /// Other pictures with the same key, which have the same embeddings.
    copies: Vec<Weak<Picture>>,
    bytes: u64,
    /// The use that was the last.
    used: u64,
}

impl Entry {
    fn key(&self) -> PictureKey {
        self.picture.key
    }

    fn drop_embeddings(self) {
        self.picture.set_embeddings(None);
        for copy in self.copies.iter().filter_map(Weak::upgrade) {
            copy.set_embeddings(None);
        }
    }
}

impl EmbeddingCache {
    /// Returns the bytes of all embeddings, and of their pictures as received.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives a picture its embeddings, and drops its pixels.
    pub(crate) fn insert(&mut self, picture: &Arc<Picture>, embeddings: Arc<[Embeddings]>) {
        let bytes = embeddings.iter().map(bytes_of).sum::<usize>();
        let bytes = (bytes + picture.received.source().bytes.len()) as u64;
        picture.set_embeddings(Some(embeddings));
        picture.set_pixels(None);
        self.uses += 1;
        self.bytes += bytes;
        self.entries.push(Entry {
            picture: picture.clone(),
            copies: Vec::new(),
            bytes,
            used: self.uses,
        });
    }

    /// Notes that a picture is used again, and gives it the embeddings of its key. Returns whether there are any.
    pub(crate) fn use_again(&mut self, picture: &Arc<Picture>) -> bool {
        let is_it = |entry: &&mut Entry| entry.key() == picture.key;
        let Some(entry) = self.entries.iter_mut().find(is_it) else {
            return false;
        };
        self.uses += 1;
        entry.used = self.uses;
        if !Arc::ptr_eq(&entry.picture, picture) && picture.embeddings().is_none() {
            picture.set_embeddings(entry.picture.embeddings());
            picture.set_pixels(None);
            entry.copies.retain(|copy| copy.strong_count() > 0);
            entry.copies.push(Arc::downgrade(picture));
        }
        picture.embeddings().is_some()
    }

    /// Drops embeddings until all have at most `most` bytes. Those that are needed stay.
    ///
    /// Users with more than an equal share lose theirs, the least recently used first. No other user loses any.
    pub(crate) fn shrink(&mut self, most: u64, is_needed: impl Fn(PictureKey) -> bool) {
        while self.bytes > most {
            let mut held = BTreeMap::<u32, u64>::new();
            for entry in &self.entries {
                *held.entry(entry.key().user).or_default() += entry.bytes;
            }
            let share = most / held.len().max(1) as u64;
            let entries = self.entries.iter().enumerate();
            let may_go = entries.filter(|(_, entry)| {
                let key = entry.key();
                held[&key.user] > share && !is_needed(key)
            });
            let Some((at, _)) = may_go.min_by_key(|(_, entry)| entry.used) else {
                return;
            };
            let entry = self.entries.swap_remove(at);
            self.bytes -= entry.bytes;
            entry.drop_embeddings();
        }
    }

    /// Drops all embeddings: those of a replaced tower are useless.
    pub(crate) fn clear(&mut self) {
        self.bytes = 0;
        self.entries.drain(..).for_each(Entry::drop_embeddings);
    }
}

fn bytes_of(embeddings: &Embeddings) -> usize {
    let further: usize = embeddings.deepstack.iter().map(Vec::len).sum();
    (embeddings.values.len() + further) * size_of::<f32>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::FIRST_IMAGE_ROW;
    use crate::vision::{ContentHash, Fields, Processor, Received, Settings};

    fn picture(user: u32, name: u8) -> Arc<Picture> {
        let processor = Processor::new(Settings::gemma3()).expect("published settings");
        let received = Received::new(Box::new([]), Fields::default(), ());
        let key = PictureKey {
            user,
            hash: ContentHash([name; 32]),
        };
        let plan = processor.plan(8, 8, None).expect("any image has a plan");
        let rows = FIRST_IMAGE_ROW..FIRST_IMAGE_ROW + 256;
        Arc::new(Picture::new(key, Arc::new(received), plan, rows))
    }

    fn embeddings(bytes: usize) -> Arc<[Embeddings]> {
        let values = vec![0.0; bytes / 4];
        Arc::new([Embeddings {
            values,
            ..Embeddings::default()
        }])
    }

    #[test]
    fn a_user_loses_only_what_exceeds_an_equal_share() {
        let mut cache = EmbeddingCache::default();
        let [quiet, first, second, third] =
            [(1, 0), (2, 1), (2, 2), (2, 3)].map(|(user, name)| picture(user, name));
        cache.insert(&quiet, embeddings(40));
        for picture in [&first, &second, &third] {
            cache.insert(picture, embeddings(40));
            cache.shrink(120, |_| false);
        }
        let is_there = |picture: &Arc<Picture>| picture.embeddings().is_some();
        assert!(is_there(&quiet), "the other user is above its share");
        assert!(!is_there(&first) && is_there(&second) && is_there(&third));
        // What is used again goes last.
        assert!(cache.use_again(&second));
        assert!(!cache.use_again(&first));
        cache.insert(&first, embeddings(40));
        cache.shrink(120, |_| false);
        assert!(is_there(&second) && !is_there(&third) && is_there(&first));
        // A picture of the same key gets its embeddings, and loses them with it.
        let copy = picture(2, 2);
        assert!(cache.use_again(&copy) && is_there(&copy));
        cache.shrink(0, |key| key == quiet.key);
        assert!(is_there(&quiet) && !is_there(&second) && !is_there(&copy));
        assert_eq!(cache.bytes(), 40);
        cache.clear();
        assert!(!is_there(&quiet) && cache.bytes() == 0);
    }
}

//! The name of an image's embeddings in a cache.

use std::fmt::{self, Debug, Formatter};

use sha2::{Digest as _, Sha256};

use super::decode::Opened;
use super::processor::{Plan, Settings};
use super::source::Source;

/// The SHA-256 of everything that an image's patches depend on. Nobody can make two images with the same one.
///
/// It says nothing about users: a cache adds whose image it is, so that no user learns what another has shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(pub [u8; 32]);

impl Debug for ContentHash {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

/// Returns the hash of an image: its bytes as received, what was said of them, and the way to its patches.
#[must_use]
pub fn hash(image: &Opened<'_>, settings: &Settings, plan: &Plan) -> ContentHash {
    let Source {
        bytes,
        format,
        width,
        height,
        stride,
        color,
        range,
    } = image.source();
    // The text has all fields, also those that are added later. It ends before the bytes start, as its length is fixed.
    let fields = format!(
        "{:?}",
        (format, width, height, stride, color, range, settings, plan)
    );
    let mut hash = Sha256::new();
    hash.update((fields.len() as u64).to_le_bytes());
    hash.update(fields);
    hash.update(bytes);
    ContentHash(hash.finalize().into())
}

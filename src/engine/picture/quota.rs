//! Counts the bytes of images as received, by user: those of requests, and those that sessions show.
//!
//! It holds no image. Embeddings and pixels count elsewhere.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::engine::caller::request::Refusal;

/// Bytes that the images of one user, and of all users, may have: a multiple of the bytes of the largest image.
const OF_USER: usize = 2;
const OF_ALL: usize = 4;

/// The bytes of the images of all users; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct ImageQuota(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    /// Bytes of all users.
    bytes: usize,
    users: HashMap<u32, usize>,
}

/// Bytes of a user's image, until this is dropped.
#[derive(Debug)]
pub struct ImageShare {
    quota: ImageQuota,
    user: u32,
    bytes: usize,
}

impl ImageQuota {
    /// Counts bytes of a user, if there is room for them. `largest` is the most bytes of one image.
    ///
    /// # Errors
    /// `UserImages`, `TooManyImages`.
    pub fn take(&self, user: u32, bytes: usize, largest: usize) -> Result<ImageShare, Refusal> {
        let of_user = largest.saturating_mul(OF_USER);
        let of_all = largest.saturating_mul(OF_ALL);
        let mut counts = self.0.lock();
        let held = counts.users.get(&user).copied().unwrap_or(0);
        if held.saturating_add(bytes) > of_user {
            return Err(Refusal::UserImages {
                user,
                bytes: of_user,
            });
        }
        if counts.bytes.saturating_add(bytes) > of_all {
            return Err(Refusal::TooManyImages { bytes: of_all });
        }
        Ok(self.add(&mut counts, user, bytes))
    }

    /// Counts bytes of a user that are in memory already, whatever the limits are.
    pub(crate) fn count(&self, user: u32, bytes: usize) -> ImageShare {
        self.add(&mut self.0.lock(), user, bytes)
    }

    fn add(&self, counts: &mut Counts, user: u32, bytes: usize) -> ImageShare {
        counts.bytes += bytes;
        *counts.users.entry(user).or_default() += bytes;
        ImageShare {
            quota: self.clone(),
            user,
            bytes,
        }
    }

    /// Returns the bytes of a user.
    #[must_use]
    pub fn of_user(&self, user: u32) -> usize {
        self.0.lock().users.get(&user).copied().unwrap_or(0)
    }
}

impl Drop for ImageShare {
    fn drop(&mut self) {
        let mut counts = self.quota.0.lock();
        counts.bytes -= self.bytes;
        if let Some(bytes) = counts.users.get_mut(&self.user) {
            *bytes -= self.bytes;
            if *bytes == 0 {
                counts.users.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_against_the_user_until_they_are_dropped() {
        let quota = ImageQuota::default();
        let first = quota.take(7, 16, 100).unwrap();
        let refused = quota.take(7, 185, 100);
        assert!(matches!(refused, Err(Refusal::UserImages { user: 7, .. })));
        let others = quota.take(8, 200, 100).unwrap();
        let all = quota.take(9, 185, 100);
        assert!(matches!(all, Err(Refusal::TooManyImages { .. })));
        let loaded = quota.count(7, 500);
        assert_eq!(quota.of_user(7), 516);
        drop((first, others, loaded));
        let counts = quota.0.lock();
        assert_eq!((counts.bytes, counts.users.len()), (0, 0));
    }
}

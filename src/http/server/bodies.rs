//! The memory of bodies: bounds the bytes of each user's bodies, and of those of all users.
//!
//! A byte counts from its arrival until the request has dropped its body.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::http::error::Error;
use crate::http::refusals;

/// The largest bodies that one user may have at once, as a multiple of the largest body.
const OF_USER: usize = 2;
/// The same of all users together.
const OF_ALL: usize = 4;
/// The bytes that a request may always have: a short question must not be refused because others send images.
const ALWAYS: usize = 64 << 10;

/// The count of the bytes; clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Bodies(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    all: usize,
    /// Users without bytes are not listed.
    by_user: HashMap<u32, usize>,
}

/// The bytes of one body; dropping it gives them back.
#[derive(Debug)]
pub(super) struct Share {
    bodies: Bodies,
    user: u32,
    bytes: usize,
    /// The most bytes of one body.
    largest: usize,
}

impl Bodies {
    /// Returns the share of a body of `user` without bytes yet.
    pub(super) fn share(&self, user: u32, largest: usize) -> Share {
        Share {
            bodies: self.clone(),
            user,
            bytes: 0,
            largest,
        }
    }
}

impl Share {
    /// Counts further bytes.
    ///
    /// # Errors
    /// If the body is too large, or the bodies of its user or of all users are.
    pub(super) fn grow(&mut self, more: usize) -> Result<(), Error> {
        let bytes = self.bytes.saturating_add(more);
        if bytes > self.largest {
            return Err(refusals::too_large(self.largest));
        }
        let mut held = self.bodies.0.lock();
        if bytes > ALWAYS {
            let of_user = held.by_user.get(&self.user).copied().unwrap_or(0);
            if of_user + more > OF_USER * self.largest {
                return Err(refusals::user_bodies(self.user));
            }
            if held.all + more > OF_ALL * self.largest {
                return Err(refusals::all_bodies());
            }
        }
        held.all += more;
        *held.by_user.entry(self.user).or_default() += more;
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.bodies.0.lock();
        held.all -= self.bytes;
        if let Some(of_user) = held.by_user.get_mut(&self.user) {
            *of_user -= self.bytes;
            if *of_user == 0 {
                held.by_user.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGEST: usize = 1 << 20;

    #[test]
    fn bytes_count_against_the_user_until_the_body_is_dropped() {
        let bodies = Bodies::default();
        let filled = |user| {
            let mut share = bodies.share(user, LARGEST);
            share.grow(LARGEST).map(|()| share)
        };
        let mut first = filled(1).unwrap();
        assert_eq!(first.grow(1), Err(refusals::too_large(LARGEST)));
        let second = filled(1).unwrap();
        assert_eq!(filled(1).unwrap_err(), refusals::user_bodies(1));
        let others = [filled(2).unwrap(), filled(3).unwrap()];
        assert_eq!(filled(4).unwrap_err(), refusals::all_bodies());
        bodies.share(4, LARGEST).grow(ALWAYS).unwrap();
        drop(second);
        drop(filled(1).unwrap());
        drop((first, others));
        let held = bodies.0.lock();
        assert!(held.all == 0 && held.by_user.is_empty());
    }
}

//! Places: one for each connection. They bound the connections of each user and of all users together.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::http::error::Error;
use crate::http::refusals;

/// Connections of one user, and of all peers over TCP that have sent no key yet.
const OF_USER: usize = 32;
/// Connections of all users together.
const OF_ALL: usize = 256;

/// The count of the places that are taken; clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    taken: Mutex<Taken>,
    none_taken: Notify,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// Users without a connection are not listed. `None` is for peers without a key.
    by_user: HashMap<Option<u32>, usize>,
}

/// Whom a connection counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    /// All users together.
    ForAll,
    /// A user as well, or the peers without a key.
    For(Option<u32>),
}

/// The place of one connection; dropping it gives it back.
#[derive(Debug)]
pub(super) struct Place {
    places: Places,
    counts: Counts,
}

impl Places {
    /// Takes a place for a connection, whose user is not known yet.
    ///
    /// # Errors
    /// If there are too many connections.
    pub(super) fn take(&self) -> Result<Place, Error> {
        let mut taken = self.0.taken.lock();
        if taken.all >= OF_ALL {
            return Err(refusals::all_connections(OF_ALL));
        }
        taken.all += 1;
        Ok(Place {
            places: self.clone(),
            counts: Counts::ForAll,
        })
    }

    /// Returns when no place is taken.
    pub(super) async fn all_returned(&self) {
        loop {
            let none_taken = self.0.none_taken.notified();
            tokio::pin!(none_taken);
            // The wait is registered before the count is read, so that no notification is missed.
            none_taken.as_mut().enable();
            if self.0.taken.lock().all == 0 {
                return;
            }
            none_taken.await;
        }
    }
}

impl Place {
    /// Counts the connection for `user`, or for peers without a key.
    ///
    /// # Errors
    /// If the user has too many connections. It then counts for its earlier user.
    pub(super) fn set_user(&mut self, user: Option<u32>) -> Result<(), Error> {
        if self.counts == Counts::For(user) {
            return Ok(());
        }
        let mut taken = self.places.0.taken.lock();
        let of_user = taken.by_user.entry(user).or_default();
        if *of_user >= OF_USER {
            return Err(refusals::user_connections(user, OF_USER));
        }
        *of_user += 1;
        if let Counts::For(earlier) = std::mem::replace(&mut self.counts, Counts::For(user)) {
            taken.give_back(earlier);
        }
        Ok(())
    }
}

impl Taken {
    fn give_back(&mut self, user: Option<u32>) {
        if let Some(of_user) = self.by_user.get_mut(&user) {
            *of_user -= 1;
            if *of_user == 0 {
                self.by_user.remove(&user);
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.0.taken.lock();
        taken.all -= 1;
        if let Counts::For(user) = self.counts {
            taken.give_back(user);
        }
        if taken.all == 0 {
            self.places.0.none_taken.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_leaves_places_to_others() {
        let places = Places::default();
        let connect = |user| {
            let mut place = places.take()?;
            place.set_user(Some(user)).map(|()| place)
        };
        let mut of_one: Vec<_> = (0..OF_USER).map(|_| connect(1).unwrap()).collect();
        assert_eq!(
            connect(1).unwrap_err(),
            refusals::user_connections(Some(1), OF_USER)
        );
        let mut other = connect(2).unwrap();
        // A connection over TCP may change its user.
        other.set_user(Some(1)).unwrap_err();
        of_one.pop();
        other.set_user(Some(1)).unwrap();
        assert!(connect(1).is_err());

        let more: Vec<_> = (of_one.len() + 1..OF_ALL)
            .map(|_| places.take().unwrap())
            .collect();
        assert_eq!(
            places.take().unwrap_err(),
            refusals::all_connections(OF_ALL)
        );
        drop((of_one, other, more));
        let taken = places.0.taken.lock();
        assert!(taken.all == 0 && taken.by_user.is_empty());
    }
}

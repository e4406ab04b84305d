//! Permits: one for each request, from its call until its reader has the whole answer. They bound the requests of each user
//! and of all users together.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::engine::{Limits, Refusal};

/// The count of the permits that are taken.
#[derive(Clone, Debug, Default)]
pub struct Permits(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    taken: Mutex<Taken>,
    none_taken: Notify,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// Users without a permit are not listed.
    by_user: HashMap<u32, usize>,
}

/// One permit; dropping it gives it back.
#[derive(Debug)]
pub struct Permit {
    permits: Permits,
    user: u32,
}

impl Permits {
    /// Takes a permit for a request of `user`.
    pub fn take(&self, user: u32, limits: &Limits) -> Result<Permit, Refusal> {
        let mut taken = self.0.taken.lock();
        let of_user = taken.by_user.get(&user).copied().unwrap_or(0);
        let requests = limits.user.requests;
        if of_user >= requests {
            return Err(Refusal::UserRequests { user, requests });
        }
        if taken.all >= limits.requests {
            return Err(Refusal::TooManyRequests(limits.requests));
        }
        taken.all += 1;
        taken.by_user.insert(user, of_user + 1);
        Ok(Permit {
            permits: self.clone(),
            user,
        })
    }

    /// Returns when no permit is taken.
    pub async fn all_returned(&self) {
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

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.permits.0.taken.lock();
        taken.all -= 1;
        if let Some(of_user) = taken.by_user.get_mut(&self.user) {
            *of_user -= 1;
            if *of_user == 0 {
                taken.by_user.remove(&self.user);
            }
        }
        if taken.all == 0 {
            self.permits.0.none_taken.notify_waiters();
        }
    }
}

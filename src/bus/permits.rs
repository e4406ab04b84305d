//! Permits for requests, from the call until the reader has everything: so many for all, so many for each user.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::engine::{Limits, Refusal};

/// This counts the permits that are taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Permits(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    taken: Mutex<Taken>,
    empty: Notify,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// Users without any are not listed.
    by_user: HashMap<u32, usize>,
}

/// One permit; dropping it gives it back.
#[derive(Debug)]
pub(super) struct Permit {
    permits: Permits,
    user: u32,
}

impl Permits {
    /// One for `user`.
    pub(super) fn take(&self, user: u32, limits: &Limits) -> Result<Permit, Refusal> {
        let mut taken = self.0.taken.lock();
        let theirs = taken.by_user.get(&user).copied().unwrap_or(0);
        let requests = limits.user.requests;
        if theirs >= requests {
            return Err(Refusal::UserRequests { user, requests });
        }
        if taken.all >= limits.requests {
            return Err(Refusal::TooManyRequests(limits.requests));
        }
        taken.all += 1;
        taken.by_user.insert(user, theirs + 1);
        Ok(Permit {
            permits: self.clone(),
            user,
        })
    }

    /// Returns when every permit has been given back.
    pub(super) async fn empty(&self) {
        loop {
            let given_back = self.0.empty.notified();
            tokio::pin!(given_back);
            // From here on it is noticed.
            given_back.as_mut().enable();
            if self.0.taken.lock().all == 0 {
                return;
            }
            given_back.await;
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.permits.0.taken.lock();
        taken.all -= 1;
        if let Some(theirs) = taken.by_user.get_mut(&self.user) {
            *theirs -= 1;
            if *theirs == 0 {
                taken.by_user.remove(&self.user);
            }
        }
        if taken.all == 0 {
            self.permits.0.empty.notify_waiters();
        }
    }
}

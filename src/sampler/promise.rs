//! A mask that another thread computes, for a thread that may need it earlier.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::mask::Mask;

/// A mask that may still be computed; `None` in its place means that it never will be.
#[derive(Clone, Debug, Default)]
pub struct Promise(Arc<Place>);

#[derive(Debug, Default)]
struct Place {
    mask: OnceLock<Option<Mask>>,
    /// Guards only the sleep of waiting threads.
    sleep: Mutex<()>,
    made: Condvar,
}

/// The end of the computing thread. Dropping it unused breaks the promise.
#[derive(Debug)]
pub struct Promised(Promise);

impl Promise {
    /// Returns a promise and the end that keeps it.
    #[must_use]
    pub fn new() -> (Self, Promised) {
        let promise = Self::default();
        (promise.clone(), Promised(promise))
    }

    /// Returns the promise of a mask that exists.
    #[must_use]
    pub fn of(mask: Mask) -> Self {
        let (promise, promised) = Self::new();
        promised.keep(mask);
        promise
    }

    /// Returns the mask if it is decided whether there is one.
    #[must_use]
    pub fn now(&self) -> Option<Option<&Mask>> {
        self.0.mask.get().map(Option::as_ref)
    }

    /// Waits for the mask.
    #[must_use]
    pub fn wait(&self) -> Option<&Mask> {
        self.0.mask.wait().as_ref()
    }

    /// Waits for the mask for at most `most`; returns what `now` then returns.
    #[must_use]
    pub fn wait_for(&self, most: Duration) -> Option<Option<&Mask>> {
        let until = Instant::now() + most;
        let mut sleep = self.0.sleep.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if let Some(made) = self.now() {
                return Some(made);
            }
            if left.is_zero() {
                return None;
            }
            self.0.made.wait_for(&mut sleep, left);
        }
    }

    fn set(&self, mask: Option<Mask>) {
        // Only one end sets the mask, and only once.
        let _ = self.0.mask.set(mask);
        drop(self.0.sleep.lock());
        self.0.made.notify_all();
    }
}

impl Promised {
    pub fn keep(self, mask: Mask) {
        self.0.set(Some(mask));
    }
}

impl Drop for Promised {
    fn drop(&mut self) {
        if self.0.now().is_none() {
            self.0.set(None);
        }
    }
}

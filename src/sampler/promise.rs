//! A mask that another thread makes, for whoever has to have it before it is there.

use std::sync::{Arc, OnceLock};

use super::Mask;

/// Where the mask will be: `None` if there will never be one.
#[derive(Clone, Debug, Default)]
pub struct Promise(Arc<OnceLock<Option<Mask>>>);

/// Who makes it. If it goes without one, there will never be one.
#[derive(Debug)]
pub struct Promised(Promise);

impl Promise {
    /// What will be made, and who makes it.
    #[must_use]
    pub fn new() -> (Self, Promised) {
        let promise = Self::default();
        (promise.clone(), Promised(promise))
    }

    /// What was made, if that is known by now.
    #[must_use]
    pub fn now(&self) -> Option<Option<&Mask>> {
        self.0.get().map(Option::as_ref)
    }

    /// Waits for it.
    #[must_use]
    pub fn wait(&self) -> Option<&Mask> {
        self.0.wait().as_ref()
    }
}

impl Promised {
    pub fn keep(self, mask: Mask) {
        // Nobody else can have set it.
        let _ = self.0.0.set(Some(mask));
    }
}

impl Drop for Promised {
    fn drop(&mut self) {
        // It was kept, or is broken.
        let _ = self.0.0.set(None);
    }
}

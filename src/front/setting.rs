//! A setting that is absent until the configuration has been read, and that a reload replaces.

use std::sync::Arc;

use tokio::sync::watch;

/// The current value, shared by its clones.
#[derive(Debug)]
pub struct Setting<T>(Arc<watch::Sender<Option<Arc<T>>>>);

impl<T> Clone for Setting<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Setting<T> {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }
}

impl<T: Default> Setting<T> {
    /// Returns the current value; waits until there is one.
    pub async fn get(&self) -> Arc<T> {
        let mut changes = self.0.subscribe();
        match changes.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(value)) => value.clone(),
            // `self` holds the sender, so the wait cannot fail.
            _ => Arc::default(),
        }
    }

    /// Replaces the value.
    pub fn set(&self, value: T) {
        self.0.send_replace(Some(Arc::new(value)));
    }
}

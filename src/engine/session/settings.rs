//! Where sessions and their pages are saved, and by which rules.
//!
//! It passes settings on to the stores. It saves nothing, and moves no session that is open.

use std::sync::Arc;

use crate::engine::caller::handle::Handle;
use crate::kv_store;
use crate::session_store::{Commits, Durability, Quota, Store};

impl Handle {
    /// Sets where persistent sessions are stored. Open sessions stay where they are.
    pub fn set_store(&self, store: Arc<Store>) {
        *self.shared.store() = Some(store);
    }

    /// Sets where pages of persistent sessions are saved.
    pub fn set_pages(&self, pages: Arc<kv_store::Store>) {
        self.shared.set_pages(pages);
    }

    /// Sets how many pages are saved.
    pub fn keep_pages(&self, rules: kv_store::Rules) {
        if let Some(pages) = self.shared.pages() {
            pages.configure(rules);
        }
    }

    /// Sets how many pages of idle sessions, named or not, the host's memory holds.
    pub fn keep_in_host(&self, rules: kv_store::HostRules) {
        self.shared.set_host(rules);
        // The engine thread drops pages beyond that at once.
        self.queue.pages_moved();
    }

    /// Sets how durable turns are, and the quota of a user.
    pub fn keep_sessions(&self, durability: Durability, quota: Quota) {
        if let Some(store) = &*self.shared.store() {
            store.configure(durability, quota);
        }
    }

    /// Writes the index that makes the next start fast. Waits for the disk.
    pub fn finish_sessions(&self) {
        let store = self.shared.store().clone();
        if let Some(store) = store {
            store.finish();
        }
    }

    /// Returns figures of writing turns to the disk.
    #[must_use]
    pub fn commits(&self) -> Commits {
        let store = self.shared.store().clone();
        store.map_or_else(Commits::default, |store| store.commits())
    }
}

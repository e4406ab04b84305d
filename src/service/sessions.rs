//! Where sessions are kept, as the configuration says.

use std::io;
use std::sync::Arc;

use crate::config::Config;
use crate::session_store::{Disk, Quota, Store};

/// The place of `sessions.directory`; nothing is written before there is a session.
///
/// # Errors
/// If the system gives no thread.
pub(super) fn open(config: &Config) -> io::Result<Arc<Store>> {
    let sessions = &config.sessions;
    let root = sessions.directory.clone();
    let store = Store::new(Arc::new(Disk), root, sessions.durability, quota(config));
    store.map(Arc::new).map_err(io::Error::other)
}

/// What one user may keep.
pub(super) fn quota(config: &Config) -> Quota {
    let sessions = &config.sessions;
    Quota {
        sessions: sessions.per_user,
        bytes: sessions.mib_per_user << 20,
    }
}

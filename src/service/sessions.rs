//! The stores of sessions and their pages, as the configuration sets them up.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::config::Config;
use crate::files::Disk;
use crate::kv_store::{self, HostRules, wears_out};
use crate::session_store::{Quota, Store};

/// Opens the store in `sessions.directory`. Nothing is written before the first session.
pub(super) fn open(config: &Config) -> io::Result<Arc<Store>> {
    let sessions = &config.sessions;
    let root = sessions.directory.clone();
    let store = Store::new(Arc::new(Disk), root, sessions.durability, quota(config));
    store.map(Arc::new).map_err(io::Error::other)
}

/// Returns the limits of one user's stored sessions.
pub(super) fn quota(config: &Config) -> Quota {
    let sessions = &config.sessions;
    Quota {
        sessions: sessions.per_user,
        bytes: sessions.mib_per_user << 20,
    }
}

/// Opens the store of key-value pages in the same directory.
pub(super) fn open_pages(config: &Config) -> io::Result<Arc<kv_store::Store>> {
    let root = config.sessions.directory.clone();
    kv_store::Store::open(Arc::new(Disk), root, page_rules(config)).map(Arc::new)
}

/// MiB of pages in the host's memory by default, if the GPU has memory of its own.
const HOST_MIB: u64 = 1024;
/// The time that a session must be idle before its pages move to the host's memory.
const HOST_REST: Duration = Duration::from_secs(1);

/// Returns the rules for pages in the host's memory.
pub(super) fn host_rules(config: &Config) -> HostRules {
    let host_mib = config.kv.host_mib;
    HostRules {
        bytes: host_mib.unwrap_or(HOST_MIB) << 20,
        discrete: host_mib.is_none(),
        rest: HOST_REST,
        measured: true,
    }
}

/// Returns the rules for pages on disk.
pub(super) fn page_rules(config: &Config) -> kv_store::Rules {
    let kv = &config.kv;
    let writes = kv.disk_writes_mib_per_day.map(|mib| mib << 20);
    let spared = || wears_out(&config.sessions.directory, Path::new("/sys")).then_some(0);
    kv_store::Rules {
        bytes: kv.disk_mib << 20,
        writes: writes.or_else(spared),
        rest: kv.spill_after,
        stop: kv.stop,
        measured: true,
    }
}

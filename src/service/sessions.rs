//! Where sessions, and what was computed of them, are kept, as the configuration says.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::config::Config;
use crate::files::Disk;
use crate::kv_store::{self, HostRules, wears_out};
use crate::session_store::{Quota, Store};

/// The place of `sessions.directory`; nothing is written before there is a session.
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

/// The place of their pages, beside them.
pub(super) fn open_pages(config: &Config) -> io::Result<Arc<kv_store::Store>> {
    let root = config.sessions.directory.clone();
    kv_store::Store::open(Arc::new(Disk), root, page_rules(config)).map(Arc::new)
}

/// MiB of pages in the host's memory where a GPU has memory of its own and nobody says more.
const HOST_MIB: u64 = 1024;
/// How long a session rests before its pages go there: of one that goes on soon, they need not.
const HOST_REST: Duration = Duration::from_secs(1);

/// How much of what was computed of sessions is kept in the host's memory.
pub(super) fn host_rules(config: &Config) -> HostRules {
    let host_mib = config.kv.host_mib;
    HostRules {
        bytes: host_mib.unwrap_or(HOST_MIB) << 20,
        discrete: host_mib.is_none(),
        rest: HOST_REST,
        measured: true,
    }
}

/// How much of them is kept.
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

//! Which model is in force: what the daemon serves, and what it would serve after its next start.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ganglion::config::Config;

use crate::client::{self, MANAGER, text};
use crate::doctor::Machine;
use crate::failure::Outcome;

#[derive(Debug, Default)]
pub(super) struct InForce {
    served: Option<PathBuf>,
    configured: Option<PathBuf>,
    /// Why the daemon could not be asked.
    pub(super) unknown: Option<String>,
}

impl InForce {
    /// Asks the daemon, if it runs, and the configuration.
    pub(super) fn ask(bus: Option<String>, config: &Path) -> Self {
        let machine = Machine::new(None);
        let (served, unknown) = match client::block_on(client::at_once(served(bus))) {
            Ok(served) => (served, None),
            Err(failure) => (None, Some(failure.message)),
        };
        let configured = Config::read(config).ok().and_then(|it| it.model.path);
        Self {
            served: served.map(|path| machine.outside(&path)),
            configured: configured.map(|path| machine.outside(&path)),
            unknown,
        }
    }

    /// What the model at `path` is to the daemon.
    pub(super) fn of(&self, path: &Path) -> Option<&'static str> {
        let is = |one: &Option<PathBuf>| one.as_deref().is_some_and(|one| is_same(one, path));
        if is(&self.served) {
            Some("served")
        } else if is(&self.configured) {
            Some("configured")
        } else {
            None
        }
    }
}

/// Whether both are the same, by whatever names: `/var/lib/ganglion` may be a disk that is mounted elsewhere too.
fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    one == other || identity(one).is_some_and(|one| identity(other) == Some(one))
}

/// The path of what the daemon serves; nothing if it does not run. It is not started for that.
async fn served(bus: Option<String>) -> Outcome<Option<PathBuf>> {
    let Some(connection) = client::running(bus).await? else {
        return Ok(None);
    };
    let manager = client::properties(&connection, MANAGER).await?;
    let path = text(&manager["Model"]["path"]);
    Ok((!path.is_empty()).then(|| path.into()))
}

//! Which model is in force: what the daemon serves, and what it would serve after its next start.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ganglion::config::Config;

use crate::client;
use crate::client::info::{object, plain};
use crate::client::refused;
use crate::doctor::Machine;
use crate::failure::{Exit, Failure};

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
        let (served, unknown) = match client::block_on(served(bus)) {
            Ok(served) => (served, None),
            Err(Failure { message, .. }) => (None, message),
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

/// By whatever names: `/var/lib/ganglion` may be a disk that is mounted elsewhere too.
fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    one == other || identity(one).is_some_and(|one| identity(other) == Some(one))
}

/// The path of what the daemon serves; nothing if it does not run. It is not started for that.
async fn served(bus: Option<String>) -> Result<Option<PathBuf>, Failure> {
    let asked = async {
        let connection = match client::connect(bus).await {
            // Where there is no bus, there is no daemon.
            Err(failure) if failure.exit == Exit::Unavailable => return Ok(None),
            connected => connected?,
        };
        if !client::is_there(&connection).await? {
            return Ok(None);
        }
        let manager = client::manager(&connection).await?;
        let model = object(&manager.model().await.map_err(refused)?);
        let path = model.get("path").map(plain).unwrap_or_default();
        Ok(Some(path)
            .filter(|path| !path.is_empty())
            .map(PathBuf::from))
    };
    client::at_once(asked).await
}

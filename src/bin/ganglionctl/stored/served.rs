//! The model that the daemon serves, and the one that it would serve after its next start.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ganglion::config::Config;

use crate::client::{self, MANAGER, text};
use crate::doctor::Machine;
use crate::failure::Outcome;

pub(super) struct Active {
    /// The served model, or the reason why the daemon could not be asked.
    pub(super) served: Outcome<Option<PathBuf>>,
    configured: Option<PathBuf>,
}

impl Active {
    /// Asks the daemon, if it runs, and reads the configuration.
    pub(super) fn ask(bus: Option<String>, config: &Path) -> Self {
        let machine = Machine::new(None);
        let outside = |path: PathBuf| machine.outside(&path);
        let served = client::block_on(client::at_once(served(bus)));
        let served = served.map(|path| path.map(outside));
        let configured = Config::read(config).ok().and_then(|it| it.model.path);
        let configured = configured.map(outside);
        Self { served, configured }
    }

    /// Returns the role of the model at `path`.
    pub(super) fn of(&self, path: &Path) -> Option<&'static str> {
        let served = self.served.as_ref().ok().and_then(Option::as_deref);
        let known = [
            ("served", served),
            ("configured", self.configured.as_deref()),
        ];
        let is = |one: Option<&Path>| one.is_some_and(|one| is_same(one, path));
        known
            .into_iter()
            .find_map(|(state, one)| is(one).then_some(state))
    }
}

/// Whether both paths lead to the same model: `/var/lib/ganglion` may be a disk that is also mounted elsewhere.
fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    one == other || identity(one).is_some_and(|one| identity(other) == Some(one))
}

/// Returns the path of the served model; `None` if the daemon does not run. It is not started.
async fn served(bus: Option<String>) -> Outcome<Option<PathBuf>> {
    let Some(connection) = client::running(bus).await? else {
        return Ok(None);
    };
    let manager = client::properties(&connection, MANAGER).await?;
    let path = text(&manager["Model"]["path"]);
    Ok((!path.is_empty()).then(|| path.into()))
}

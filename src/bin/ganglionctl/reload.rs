//! `ganglionctl reload`: reloads the daemon's configuration, and waits until it is active.

use ganglion::bus;
use ganglion::bus::proxy::ManagerProxy;

use crate::client;
use crate::failure::{Outcome, failure};

/// Waits as long as a model takes to load, because calls on this connection have no time limit.
pub(crate) async fn run(bus: Option<String>) -> Outcome {
    let connection = client::connect(bus).await?;
    let reloaded = ManagerProxy::new(&connection).await?.reload().await;
    reloaded.map_err(|error| match error {
        // An invalid configuration is not an error of the command line.
        bus::Error::InvalidOption(why) => failure!(Config: "{why}"),
        error => error.into(),
    })
}

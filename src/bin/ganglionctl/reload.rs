//! `ganglionctl reload`: has the daemon read its configuration again, and waits until it is in force.

use ganglion::bus;
use ganglion::bus::proxy::ManagerProxy;

use crate::client;
use crate::failure::{Outcome, failure};

/// Waits as long as a model takes to load: a call on this connection has no time limit of its own.
pub(crate) async fn run(bus: Option<String>) -> Outcome {
    let connection = client::connect(bus).await?;
    let reloaded = ManagerProxy::new(&connection).await?.reload().await;
    reloaded.map_err(|error| match error {
        // What is wrong with a configuration is no fault of the command line.
        bus::Error::InvalidOption(why) => failure!(Config: "{why}"),
        error => error.into(),
    })
}

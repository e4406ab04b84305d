//! `ganglionctl release`: has the daemon release the memory of its model, and waits until it has.

use ganglion::bus::proxy::ManagerProxy;

use crate::client;
use crate::failure::Outcome;

pub(crate) async fn run(bus: Option<String>) -> Outcome {
    let connection = client::connect(bus).await?;
    Ok(ManagerProxy::new(&connection).await?.release().await?)
}

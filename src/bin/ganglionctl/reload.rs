//! `ganglionctl reload`: has the daemon read its configuration again, and waits until it is in force.

use clap::Parser;
use ganglion::bus;

use crate::client::{self, refused};
use crate::failure::{Exit, Failure};

#[derive(Debug, Parser)]
pub(crate) struct Arguments {}

/// Waits as long as a model takes to load: a call on this connection has no time limit of its own.
pub(crate) fn run(bus: Option<String>, _: &Arguments) -> Result<Exit, Failure> {
    client::block_on(async {
        let connection = client::connect(bus).await?;
        let manager = client::manager(&connection).await?;
        manager.reload().await.map_err(failure)?;
        Ok(Exit::Ok)
    })
}

/// What is wrong with a configuration is no fault of the command line.
fn failure(error: bus::Error) -> Failure {
    let config = matches!(error, bus::Error::InvalidOption(_));
    let Failure { exit, message } = refused(error);
    Failure {
        exit: if config { Exit::Config } else { exit },
        message,
    }
}

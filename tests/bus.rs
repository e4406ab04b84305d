//! The D-Bus interfaces, on a private bus, by real clients.

mod annotations;
mod cancel;
mod clients;
mod contract;
mod ending;
mod errors;
mod fitting;
mod flood;
mod graph_told;
mod greedy;
mod hostile_wire;
mod input;
mod leaks;
mod loading;
mod members;
mod oversized;
mod owners;
mod policy;
mod quotas;
mod seeds;
mod sessions;
mod streaming;
mod submit;
mod taking;
mod timed;
mod tools;
mod turns;
mod urgency;
mod window;
mod zeros;

use std::collections::HashMap;

use ganglion::bus::Error;
use ganglion::bus::proxy::Fields;
use zbus::{OwnedFd, OwnedObjectPath, Variant};

use crate::support::daemon::Client;

/// Options, or the fields of a message.
fn fields<'a, const N: usize>(entries: [(&'a str, Variant<'a>); N]) -> Fields<'a> {
    HashMap::from(entries)
}

/// Asks one question as the user.
async fn ask(
    client: &Client,
    question: &str,
    options: Fields<'_>,
) -> Result<(OwnedObjectPath, OwnedFd), Error> {
    let message = ("user", fields([("content", question.into())]));
    client.manager.generate(&[message], options).await
}

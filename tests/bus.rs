//! The D-Bus interfaces, on a private bus, by real clients.

mod annotations;
mod cancel;
mod clients;
mod constraints;
mod contract;
mod ending;
mod errors;
mod fair_turns;
mod flood;
mod graph_events;
mod hostile_grammars;
mod hostile_wire;
mod images;
mod invalid_input;
mod leaks;
mod loading;
mod members;
mod nul_characters;
mod operation_times;
mod oversized;
mod owners;
mod policy;
mod priorities;
mod quotas;
mod release;
mod seeds;
mod sessions;
mod streaming;
mod submit;
mod taking_over;
mod tools;
mod window;

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

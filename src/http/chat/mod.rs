//! `/v1/chat/completions`: from its JSON to a request of the engine, and from its events to JSON.
//!
//! `fields` is the table of fields. `request` decodes a body, with `messages` and `options`. `whole` and `chunks` write
//! answers in the form of `answer`.

pub(super) mod answer;
mod chunks;
pub(super) mod fields;
mod messages;
mod options;
mod request;
#[cfg(test)]
mod tests;
mod whole;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;

use super::answer::begin::{Admitted, Begun};
use super::answer::stream;
use super::error::Error;
use super::request::body;
use super::shared::Shared;
use super::terms;
use crate::engine::Client;
use chunks::Chunks;
use request::Asked;
use whole::Collected;

/// The beginning of the ids of answers.
const PREFIX: &str = "chatcmpl-";

/// Answers one conversation.
pub(super) async fn completions(
    State(shared): State<Shared>,
    Extension(client): Extension<Client>,
    body: Bytes,
) -> Result<Response, Error> {
    let admitted = Admitted::new(&shared, client)?;
    let Asked {
        question,
        stream,
        include_usage,
    } = body::decode(body, Asked::read).await?;
    let mut begun = admitted.begin(question, PREFIX, &terms::CHAT).await?;
    if stream {
        let silence = shared.silence;
        let first = begun.first_within(silence, &terms::CHAT).await?;
        let chunks = Chunks::new(begun.heading, include_usage);
        return Ok(stream::response(begun.running, chunks, first, silence));
    }
    let first = begun.first(&terms::CHAT).await?;
    let Begun {
        heading,
        mut running,
    } = begun;
    let mut collected = Collected::default();
    let outcome = running.collect(first, |event| collected.push(event)).await;
    let json = collected.json(&heading, &outcome)?;
    Ok(running.json(json))
}

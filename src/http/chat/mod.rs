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

use super::answer::begin::Admitted;
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
    let terms = &terms::CHAT;
    let begun = admitted.begin(question, PREFIX, terms).await?;
    if stream {
        let chunks = |heading, _: &_| Chunks::new(heading, include_usage);
        return begun.streamed(chunks, shared.silence, terms).await;
    }
    begun.whole(Collected::default(), terms).await
}

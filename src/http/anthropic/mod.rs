//! `/v1/messages`, Anthropic's API: from its JSON to a request of the engine, and from its events to JSON.
//!
//! `fields` is the table of fields. `request` decodes a body, with `messages`, `turns`, `blocks` and `options`. `whole` and
//! `events` write answers in the form of `answer`. Errors have the form of `error_form`.

mod answer;
mod blocks;
mod events;
pub(super) mod fields;
mod messages;
mod options;
mod request;
#[cfg(test)]
mod tests;
mod turns;
mod whole;

use axum::Extension;
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;

use super::answer::begin::Admitted;
use super::error::Error;
use super::error_form;
use super::request::body;
use super::running::Running;
use super::shared::Shared;
use super::terms;
use crate::engine::Client;
use events::Events;
use request::Asked;
use whole::Collected;

/// The beginning of the ids of answers.
const PREFIX: &str = "msg_";

/// The number of the tokens of a prompt.
#[derive(Debug, Serialize)]
struct Counted {
    input_tokens: usize,
}

/// Answers one conversation.
pub(super) async fn create(
    State(shared): State<Shared>,
    Extension(client): Extension<Client>,
    body: Bytes,
) -> Response {
    answered(shared, client, body).await.unwrap_or_else(refused)
}

/// Returns the number of tokens that the prompt of a conversation has.
pub(super) async fn count(
    State(shared): State<Shared>,
    Extension(client): Extension<Client>,
    body: Bytes,
) -> Response {
    counted(shared, client, body).await.unwrap_or_else(refused)
}

#[allow(clippy::needless_pass_by_value)] // `unwrap_or_else` calls it so
fn refused(error: Error) -> Response {
    error.response(&error_form::anthropic(&error))
}

async fn answered(shared: Shared, client: Client, body: Bytes) -> Result<Response, Error> {
    let admitted = Admitted::new(&shared, client)?;
    let Asked { question, stream } = body::decode(body, Asked::read).await?;
    let terms = &terms::MESSAGES;
    let begun = admitted.begin(question, PREFIX, terms).await?;
    if stream {
        let events = |heading, running: &Running| Events::new(heading, running.prompt_tokens());
        return begun.streamed(events, shared.silence, terms).await;
    }
    begun.whole(Collected::default(), terms).await
}

async fn counted(shared: Shared, client: Client, body: Bytes) -> Result<Response, Error> {
    let admitted = Admitted::new(&shared, client)?;
    let Asked { question, .. } = body::decode(body, Asked::to_count).await?;
    let input_tokens = admitted.count(question, &terms::MESSAGES).await?;
    Ok(Json(Counted { input_tokens }).into_response())
}

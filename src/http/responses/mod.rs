//! `/v1/responses`: from its JSON to a request of the engine, and from its events to JSON.
//!
//! `fields` is the table of fields. `request` decodes a body, with `input` and `options`. `progress` collects an answer,
//! and writes the events of a stream. `kept` has the stored responses.

mod events;
pub(super) mod fields;
mod input;
mod items;
pub(super) mod kept;
mod options;
mod parts;
mod progress;
mod request;
mod response;
mod settings;
#[cfg(test)]
mod tests;
mod turn;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;

use super::answer::begin::Admitted;
use super::chain::Keeper;
use super::error::Error;
use super::request::body;
use super::shared::Shared;
use super::terms;
use crate::engine::Client;
use progress::{PREFIX, Progress};
use request::Asked;

/// Answers one request.
pub(super) async fn create(
    State(shared): State<Shared>,
    Extension(client): Extension<Client>,
    body: Bytes,
) -> Result<Response, Error> {
    let user = client.user;
    let admitted = Admitted::new(&shared, client)?;
    let Asked {
        question,
        stream,
        settings,
    } = body::decode(body, Asked::read).await?;
    let terms = &terms::RESPONSES;
    let begun = admitted.begin(question, PREFIX, terms).await?;
    let keeper = settings.store.then(|| Keeper::new(&shared, user));
    let progress = |heading| Progress::new(heading, settings, stream).kept_by(keeper);
    if stream {
        let progress = |heading, _: &_| progress(heading);
        return begun.streamed(progress, shared.silence, terms).await;
    }
    let progress = progress(begun.heading.clone());
    begun.whole(progress, terms).await
}

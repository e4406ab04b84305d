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

use super::answer::begin::{Admitted, Begun};
use super::answer::stream;
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
    let mut begun = admitted.begin(question, PREFIX, &terms::RESPONSES).await?;
    let keeper = settings.store.then(|| Keeper::new(&shared, user));
    let progress = |heading| Progress::new(heading, settings, stream).kept_by(keeper);
    if stream {
        let silence = shared.silence;
        let first = begun.first_within(silence, &terms::RESPONSES).await?;
        let progress = progress(begun.heading);
        return Ok(stream::response(begun.running, progress, first, silence));
    }
    let first = begun.first(&terms::RESPONSES).await?;
    let Begun {
        heading,
        mut running,
    } = begun;
    let mut progress = progress(heading);
    let outcome = running
        .collect(first, |event| progress.collect(event))
        .await;
    let json = progress.json(&outcome)?;
    Ok(running.json(json))
}

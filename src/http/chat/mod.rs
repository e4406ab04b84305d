//! `/v1/chat/completions`: from its JSON to a request of the engine, and from its events to JSON.

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;

use super::error::Error;
use super::shared::Shared;
use crate::engine::Client;

/// Answers one conversation.
#[allow(clippy::unused_async)]
pub(super) async fn completions(
    State(_shared): State<Shared>,
    Extension(_client): Extension<Client>,
    _body: Bytes,
) -> Result<Response, Error> {
    Err(Error::invalid(None, "not yet"))
}

//! `/v1/responses/ID`: a stored response of the caller's user.

use axum::Extension;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use super::super::chain::{close, unknown};
use super::super::error::Error;
use super::super::shared::Shared;
use crate::engine::Client;

/// Returns a stored response.
pub(in crate::http) async fn get(
    State(shared): State<Shared>,
    Extension(client): Extension<Client>,
    Path(id): Path<String>,
) -> Result<Response, Error> {
    let found = shared.stored.get(client.user, &id);
    let found = found.filter(|found| !found.json.is_empty());
    let json = found.ok_or_else(|| unknown(&id, None))?.json;
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

/// Deletes a stored response, and its session with the last of its responses.
pub(in crate::http) async fn delete(
    State(shared): State<Shared>,
    Extension(client): Extension<Client>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Error> {
    let unused = shared.stored.remove(client.user, &id);
    for session in unused.ok_or_else(|| unknown(&id, None))? {
        close(shared.front.engine(), session);
    }
    Ok(Json(
        json!({"id": id, "object": "response", "deleted": true}),
    ))
}

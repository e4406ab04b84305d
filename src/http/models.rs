//! `/v1/models`: the loaded model.

use axum::extract::{Path, State};
use axum::response::Response;

use super::error::Error;
use super::shared::Shared;

/// Lists the loaded model.
#[allow(clippy::unused_async)]
pub(super) async fn list(State(_shared): State<Shared>) -> Result<Response, Error> {
    Err(Error::invalid(None, "not yet"))
}

/// Describes one model.
#[allow(clippy::unused_async)]
pub(super) async fn one(
    State(_shared): State<Shared>,
    Path(_model): Path<String>,
) -> Result<Response, Error> {
    Err(Error::invalid(None, "not yet"))
}

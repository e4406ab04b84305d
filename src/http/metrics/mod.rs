//! `/metrics`: counters and times as Prometheus reads them.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;

use super::error::Error;
use super::shared::Shared;
use crate::engine::Client;

/// Returns all metrics to a user who may see them.
#[allow(clippy::unused_async)]
pub(super) async fn metrics(
    State(_shared): State<Shared>,
    Extension(_client): Extension<Client>,
) -> Result<Response, Error> {
    Err(Error::invalid(None, "not yet"))
}

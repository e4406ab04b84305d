//! The paths of the API, and the handler of each. Each request has an extension `Client`, who calls, but those that `is_open`
//! names.

use axum::Router;
use axum::http::Method;
use axum::routing::{get, post};

use super::shared::Shared;
use super::{chat, health, metrics, models};

/// Whether a request is answered without a caller.
pub(super) fn is_open(method: &Method, path: &str) -> bool {
    (method, path) == (&Method::GET, "/health")
}

/// Returns the service of all paths.
pub(super) fn router(shared: Shared) -> Router {
    Router::new()
        .route("/health", get(health::health))
        .route("/metrics", get(metrics::metrics))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{model}", get(models::one))
        .route("/v1/chat/completions", post(chat::completions))
        .with_state(shared)
}

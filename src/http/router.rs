//! The paths of the API, and the handler of each. Each request has an extension `Client`, who calls, but those that `is_open`
//! names.

use axum::Router;
use axum::http::Method;
use axum::routing::{get, post};

use super::shared::Shared;
use super::{anthropic, chat, completions, health, metrics, models, responses};

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
        .route("/v1/completions", post(completions::completions))
        .route("/v1/responses", post(responses::create))
        .route(
            "/v1/responses/{id}",
            get(responses::kept::get).delete(responses::kept::delete),
        )
        .route("/v1/messages", post(anthropic::create))
        .route("/v1/messages/count_tokens", post(anthropic::count))
        .with_state(shared)
}

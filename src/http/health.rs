//! `/health`: whether the daemon can answer.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::shared::Shared;
use crate::engine::State as EngineState;

/// Returns 200 if the model is loaded, and otherwise 503 with the reason.
pub(super) async fn health(State(shared): State<Shared>) -> Response {
    let status = shared.front.engine().status().borrow();
    let code = if status.state == EngineState::Ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let body = json!({"status": status.state.name(), "detail": status.detail});
    (code, axum::response::Json(body)).into_response()
}

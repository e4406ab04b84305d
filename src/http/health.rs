//! `/health`: whether the daemon can answer. Every caller may ask.
//!
//! The bodies have the fields that llama-server's have, so that probes for it work: `"status": "ok"`, or an error with
//! the code 503. The error has OpenAI's form too, and `state`, `detail` and `loaded_percent` say more.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Json, Response};
use serde_json::{Value, json};

use super::shared::Shared;
use crate::engine::{State as EngineState, Status};

/// Returns 200 if the model is loaded, and otherwise 503 with the reason.
pub(super) async fn health(State(shared): State<Shared>) -> Response {
    let status = shared.front.engine().status().borrow();
    let (code, body) = answer(&status);
    // A proxy must not answer for a daemon that has stopped.
    (code, [(header::CACHE_CONTROL, "no-store")], Json(body)).into_response()
}

/// Returns the status code and the body.
fn answer(status: &Status) -> (StatusCode, Value) {
    let Status {
        state,
        detail,
        loaded_percent,
        ..
    } = status;
    // The first two texts are llama-server's.
    let (short, message) = match state {
        EngineState::Ready | EngineState::Idle => {
            let body = json!({
                "status": "ok",
                "state": state.name(),
                "model": status.model.name,
            });
            return (StatusCode::OK, body);
        }
        EngineState::Loading => ("loading model", "Loading model".to_owned()),
        EngineState::Failed => ("error", format!("the model cannot be loaded: {detail}")),
        EngineState::Stopping => ("stopping", "the daemon is stopping".to_owned()),
    };
    let code = StatusCode::SERVICE_UNAVAILABLE;
    let mut body = json!({
        "status": short,
        "state": state.name(),
        "detail": detail,
        "error": {
            "message": message,
            "type": "unavailable_error",
            "param": null,
            "code": code.as_u16(),
        },
    });
    if let Some(percent) = loaded_percent {
        body["loaded_percent"] = json!(percent);
    }
    (code, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loaded_model_is_ok() {
        let mut status = Status {
            state: EngineState::Ready,
            ..Status::default()
        };
        status.model.name = "Tiny".into();
        let (code, body) = answer(&status);
        assert_eq!(code, StatusCode::OK);
        let expected = json!({"status": "ok", "state": "ready", "model": "Tiny"});
        assert_eq!(body, expected);
    }

    #[test]
    fn a_load_reports_its_progress_as_an_error_that_probes_know() {
        let status = Status {
            detail: "loading 40%".into(),
            loaded_percent: Some(40),
            ..Status::default()
        };
        let (code, body) = answer(&status);
        assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(
            body,
            json!({
                "status": "loading model",
                "state": "loading",
                "detail": "loading 40%",
                "error": {
                    "message": "Loading model",
                    "type": "unavailable_error",
                    "param": null,
                    "code": 503,
                },
                "loaded_percent": 40,
            })
        );
    }

    #[test]
    fn a_failed_load_says_why() {
        let status = Status {
            state: EngineState::Failed,
            detail: "no such file".into(),
            ..Status::default()
        };
        let (code, body) = answer(&status);
        assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(body["status"], "error");
        let message = body["error"]["message"].as_str().unwrap_or_default();
        assert!(message.ends_with("no such file"), "{body}");
    }
}

//! The form of an error, which depends on the path: OpenAI's, or Anthropic's below `/v1/messages`.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::error::Error;

/// The path whose errors have Anthropic's form, and those below it.
const ANTHROPIC: &str = "/v1/messages";

/// Returns the response for an error of a request with this path.
pub(super) fn response(error: &Error, path: &str) -> Response {
    if is_anthropic(path) {
        error.response(&anthropic(error))
    } else {
        error.response(&error.json())
    }
}

/// Returns a body that has both forms, for a connection that is refused before its request is read.
pub(super) fn both(error: &Error) -> Value {
    let mut body = error.json();
    body["type"] = json!("error");
    body
}

/// Returns the body in Anthropic's form.
pub(super) fn anthropic(error: &Error) -> Value {
    json!({"type": "error", "error": {"type": kind(error.status), "message": error.message}})
}

fn is_anthropic(path: &str) -> bool {
    let below = path.strip_prefix(ANTHROPIC);
    below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

/// Returns Anthropic's type of the errors with a status.
fn kind(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::NOT_FOUND => "not_found_error",
        StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
        StatusCode::REQUEST_TIMEOUT => "timeout_error",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
        status if status.is_server_error() => "api_error",
        _ => "invalid_request_error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::refusals;

    #[test]
    fn the_path_decides_the_form() {
        for path in ["/v1/messages", "/v1/messages/count_tokens", "/v1/messages/"] {
            assert!(is_anthropic(path), "{path}");
        }
        for path in ["/v1/messagesx", "/v1/chat/completions", "/", ""] {
            assert!(!is_anthropic(path), "{path}");
        }
        let error = refusals::unknown_key();
        let message = &error.message;
        let body =
            json!({"type": "error", "error": {"type": "authentication_error", "message": message}});
        assert_eq!(anthropic(&error), body);
        let body = both(&error);
        assert_eq!(body["type"], "error");
        assert_eq!(body["error"], error.json()["error"]);
    }
}

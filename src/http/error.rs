//! Errors in OpenAI's form, with the HTTP status of each.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// An error of a request. Its text names the wrong value and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub status: StatusCode,
    /// The field `type`: "`invalid_request_error`" and the like.
    pub kind: &'static str,
    /// The field `code`.
    pub code: Option<&'static str>,
    /// The field of the request that is wrong, as a path: `messages[1].content`.
    pub param: Option<String>,
    pub message: String,
}

impl Error {
    /// A request that cannot be used as it is.
    #[must_use]
    pub fn invalid(param: Option<&str>, message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            kind: "invalid_request_error",
            code: None,
            param: param.map(str::to_owned),
            message: message.into(),
        }
    }

    /// Returns the body.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        json!({"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}})
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let body = self.json().to_string();
        (
            self.status,
            [(header::CONTENT_TYPE, "application/json")],
            body,
        )
            .into_response()
    }
}

//! Errors in OpenAI's form, with the HTTP status of each, as `bus::error` has them for D-Bus.
//!
//! A text of `front` or of the engine names options; here it names the fields of a request that set them, as `terms` has
//! them for each endpoint. `error_form` has the form of Anthropic's API.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::terms::{self, Terms};
use crate::engine::{EngineError, FinishReason, Outcome, Refusal, RequestError};
use crate::front::{self, OptionError};

/// Seconds after which a caller may try again when a limit of running requests was reached.
const SOON: u32 = 1;
/// Seconds after which a caller may try again while the model loads.
pub(super) const LOADING: u32 = 5;

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
    /// Seconds after which the same request may succeed, if that is known.
    pub retry_after: Option<u32>,
}

impl Error {
    /// A request that cannot be used as it is.
    #[must_use]
    pub fn invalid(param: Option<&str>, message: impl Into<String>) -> Self {
        Self {
            param: param.map(str::to_owned),
            ..Self::new(
                StatusCode::BAD_REQUEST,
                "invalid_request_error",
                None,
                message,
            )
        }
    }

    /// An error of another status.
    #[must_use]
    pub fn new(
        status: StatusCode,
        kind: &'static str,
        code: Option<&'static str>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            status,
            kind,
            code,
            param: None,
            message: message.into(),
            retry_after: None,
        }
    }

    /// The daemon or the model cannot answer now.
    #[must_use]
    pub fn unavailable(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "server_error",
            Some(code),
            message,
        )
    }

    /// The error with a `code`.
    #[must_use]
    pub fn with_code(self, code: &'static str) -> Self {
        Self {
            code: Some(code),
            ..self
        }
    }

    fn with_param(self, param: impl Into<String>) -> Self {
        Self {
            param: Some(param.into()),
            ..self
        }
    }

    fn after(self, seconds: u32) -> Self {
        Self {
            retry_after: Some(seconds),
            ..self
        }
    }

    /// Returns an error of `front` in the terms of an endpoint; `fields` names the field of the request that sets an
    /// option, where that is not the usual one.
    #[must_use]
    pub(super) fn of_front(
        error: front::Error,
        terms: &Terms,
        fields: &[(&'static str, &'static str)],
    ) -> Self {
        let text = error.to_string();
        match error {
            front::Error::Option(error) => {
                let text = match &error {
                    // The callers of this front end do not know types of D-Bus, nor the options of its sessions.
                    OptionError::Value { allowed, given, .. } => {
                        let given = given.trim_start_matches("of type ");
                        let name = error.option().unwrap_or_default();
                        format!("{name:?} is {given}; allowed is {}", allowed.describe(""))
                    }
                    _ => text,
                };
                Self::of_option(error.option(), &text, terms, fields).with_code("invalid_value")
            }
            front::Error::Messages(_)
            | front::Error::TooManyImages { .. }
            | front::Error::SlowImages => Self::invalid(Some(terms.messages), text),
            front::Error::Image { message, part, .. } => {
                let path = format!("{}[{message}].content[{part}]", terms.messages);
                Self::invalid(Some(&path), text).with_code("invalid_image")
            }
            front::Error::Refused(refusal) => Self::of_refusal(refusal, terms, fields),
            front::Error::NoRandomness(_) | front::Error::ReaderFailed(_) => Self::failed(text),
        }
    }

    fn of_refusal(
        refusal: Refusal,
        terms: &Terms,
        fields: &[(&'static str, &'static str)],
    ) -> Self {
        let text = refusal.to_string();
        let user = || {
            let (status, kind) = (StatusCode::TOO_MANY_REQUESTS, "rate_limit_error");
            Self::new(status, kind, Some("rate_limit_exceeded"), &*text).after(SOON)
        };
        let session = |status, code| {
            Self::new(status, "invalid_request_error", Some(code), &*text)
                .with_param("ganglion.session")
        };
        match refusal {
            Refusal::NotReady(_) => Self::unavailable("not_ready", text),
            Refusal::OutOfMemory(_) => Self::unavailable("out_of_memory", text).after(LOADING),
            // Limits of all users together.
            Refusal::Active { .. }
            | Refusal::Busy { .. }
            | Refusal::TooManyRequests(_)
            | Refusal::TooManySessions(_)
            | Refusal::TooManyImages { .. }
            | Refusal::TooManyPixels { .. } => Self::unavailable("busy", text).after(SOON),
            // Limits of one user.
            Refusal::UserQueue { .. }
            | Refusal::UserRequests { .. }
            | Refusal::UserSessions { .. }
            | Refusal::UserImages { .. }
            | Refusal::UserPixels { .. } => user(),
            // The same request is never accepted.
            Refusal::UserPages { .. } => Self::of_option(Some("max_tokens"), &text, terms, fields),
            Refusal::Quota { .. } => Self {
                code: Some("insufficient_quota"),
                retry_after: None,
                ..user()
            },
            Refusal::SessionBusy => session(StatusCode::CONFLICT, "session_busy"),
            // Its remedies are those of the bus.
            Refusal::SessionHeld { name, holder } => Self {
                message: format!(
                    "session {name:?} is held by {holder} of the same user; try again when its answer is complete, or when it has \
                     closed the session"
                ),
                ..session(StatusCode::CONFLICT, "session_busy")
            },
            Refusal::SessionClosed | Refusal::NoSession(_) => {
                session(StatusCode::NOT_FOUND, "session_not_found")
            }
            Refusal::SessionDiffers { .. } | Refusal::Turns { .. } => {
                session(StatusCode::BAD_REQUEST, "session_differs")
            }
            Refusal::ContextFull { .. } | Refusal::PromptBytes { .. } => {
                Self::invalid(Some(terms.messages), text).with_code("context_length_exceeded")
            }
            Refusal::InvalidMessages(_) => {
                Self::invalid(Some(terms.messages), terms.of_messages(&text))
            }
            Refusal::Image { message, .. } => {
                let path = if terms.is_numbered {
                    format!("{}[{message}].content", terms.messages)
                } else {
                    terms.messages.to_owned()
                };
                Self::invalid(Some(&path), text).with_code("invalid_image")
            }
            Refusal::InvalidGrammar(_) => {
                Self::of_option(None, &text, terms, fields).with_code("invalid_value")
            }
            Refusal::NotSupported(_) => Self::invalid(None, text).with_code("not_supported"),
            Refusal::Unkept(_) => Self::failed(text),
        }
    }

    /// Returns the error of an option, in the terms of the fields that set it. A text that begins with an option is about
    /// that one.
    fn of_option(
        option: Option<&str>,
        given: &str,
        terms: &Terms,
        fields: &[(&'static str, &'static str)],
    ) -> Self {
        let begins = given.strip_prefix("option \"");
        let first = begins.and_then(|rest| rest.split_once('"'));
        let option = first.map_or(option, |(option, _)| Some(option));
        let (text, field) = terms.of_options(given, option, fields);
        Self::invalid(field, text.replace("option \"", "\""))
    }

    fn failed(text: impl Into<String>) -> Self {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Self::new(status, "server_error", Some("engine_failed"), text)
    }

    /// Returns the error that ended an accepted request; `None` if it has an answer.
    #[must_use]
    pub(super) fn of_outcome(outcome: &Outcome, terms: &Terms) -> Option<Self> {
        match (outcome.reason, outcome.error.clone()) {
            (FinishReason::Error, Some(error)) => Some(Self::of_request(error, terms)),
            (FinishReason::Error, None) => Some(Self::failed("the engine gave no reason")),
            // Only the daemon's stop cancels a request whose caller waits.
            (FinishReason::Cancelled, _) => Some(Self::unavailable(
                "stopping",
                "the daemon is stopping; try again when it has started",
            )),
            _ => None,
        }
    }

    fn of_request(error: RequestError, terms: &Terms) -> Self {
        match error {
            RequestError::Refused(refusal) => Self::of_refusal(refusal, terms, &[]),
            // The model has no token that continues the answer.
            RequestError::Guide(error) => {
                let (text, field) = terms.of_options(&error.to_string(), Some("json_schema"), &[]);
                Self::invalid(field, text).with_code("invalid_value")
            }
            RequestError::EngineFailed(error) => match error {
                EngineError::Replaced | EngineError::Ended | EngineError::Stopped => {
                    Self::unavailable("restarted", error.to_string()).after(SOON)
                }
                _ => Self::failed(error.to_string()),
            },
        }
    }

    /// Returns the body in OpenAI's form.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        json!({"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}})
    }

    /// Returns the response with the body `json`.
    pub(super) fn response(&self, json: &serde_json::Value) -> Response {
        let kind = [(header::CONTENT_TYPE, "application/json")];
        let mut response = (self.status, kind, json.to_string()).into_response();
        if let Some(seconds) = self.retry_after {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// For errors that concern no field of a request.
impl From<front::Error> for Error {
    fn from(error: front::Error) -> Self {
        Self::of_front(error, &terms::CHAT, &[])
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        self.response(&self.json())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::{Config, GivenOption, GivenOptions, Value};

    fn given(name: &str, value: Value) -> GivenOption {
        GivenOption {
            name: name.to_owned(),
            value,
            type_name: "object".to_owned(),
        }
    }

    fn refused(kept: Vec<GivenOption>, fields: &[(&'static str, &'static str)]) -> Error {
        let given = GivenOptions { kept, more: false };
        let refused = front::request(&given, &Config::default()).map(drop);
        Error::of_front(refused.expect_err("it is wrong"), &terms::CHAT, fields)
    }

    #[test]
    fn errors_of_options_name_the_fields_of_the_request() {
        let schema = || given("json_schema", Value::Text("{}".into()));
        let error = refused(vec![schema(), given("regex", Value::Text("a".into()))], &[]);
        assert_eq!(error.param.as_deref(), Some("response_format"), "{error:?}");
        assert!(error.message.contains("\"ganglion.regex\""), "{error:?}");
        let error = refused(vec![given("json_schema", Value::Other)], &[]);
        assert!(
            error.message.starts_with("\"response_format\" is object"),
            "{error:?}"
        );
        let tokens = || vec![given("max_tokens", Value::Whole(0))];
        let error = refused(tokens(), &[("max_tokens", "max_completion_tokens")]);
        assert_eq!(error.param.as_deref(), Some("max_completion_tokens"));
        assert_eq!(refused(tokens(), &[]).param.as_deref(), Some("max_tokens"));
    }

    #[test]
    fn a_limit_of_requests_says_when_to_try_again() {
        let refusal = Refusal::UserRequests {
            user: 7,
            requests: 2,
        };
        let error = Error::from(front::Error::from(refusal));
        assert_eq!(error.kind, "rate_limit_error");
        let response = error.into_response();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    }
}

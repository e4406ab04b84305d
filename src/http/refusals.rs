//! The errors of the server itself: who may not call, and which limit a connection or a body exceeds.

use axum::http::StatusCode;

use super::error::Error;

const RATE_LIMIT: &str = "rate_limit_error";
const INVALID: &str = "invalid_request_error";
const AUTHENTICATION: &str = "authentication_error";
const SERVER: &str = "server_error";

fn error(
    status: StatusCode,
    kind: &'static str,
    code: &'static str,
    message: impl Into<String>,
) -> Error {
    Error::new(status, kind, Some(code), message)
}

pub(super) fn no_keys() -> Error {
    let why = "this daemon takes no requests over TCP: http.key_file is not set; use the UNIX socket, or ask the administrator";
    error(StatusCode::UNAUTHORIZED, AUTHENTICATION, "no_keys", why)
}

pub(super) fn no_key() -> Error {
    let why = "the request has no key; send the header \"Authorization: Bearer KEY\", or \"x-api-key: KEY\", with a key of http.key_file";
    error(
        StatusCode::UNAUTHORIZED,
        AUTHENTICATION,
        "missing_api_key",
        why,
    )
}

pub(super) fn unknown_key() -> Error {
    let why = "the key is unknown; send one of http.key_file";
    error(
        StatusCode::UNAUTHORIZED,
        AUTHENTICATION,
        "invalid_api_key",
        why,
    )
}

pub(super) fn too_large(limit: usize) -> Error {
    let mib = limit >> 20;
    let why = format!(
        "the body is larger than {mib} MiB; send fewer or smaller images, or raise http.max_body_mib"
    );
    error(
        StatusCode::PAYLOAD_TOO_LARGE,
        INVALID,
        "body_too_large",
        why,
    )
}

pub(super) fn slow_body() -> Error {
    let why = "the body did not arrive in time; send it at 64 KiB a second or faster";
    error(StatusCode::REQUEST_TIMEOUT, INVALID, "slow_body", why)
}

pub(super) fn broken_body() -> Error {
    let why = "the body ended early or is not chunked as HTTP says; send it again";
    error(StatusCode::BAD_REQUEST, INVALID, "broken_body", why)
}

pub(super) fn user_bodies(user: u32) -> Error {
    let why = format!(
        "the bodies of the requests of user {user} take too much memory together; send the next when others are answered"
    );
    error(
        StatusCode::TOO_MANY_REQUESTS,
        RATE_LIMIT,
        "user_bodies",
        why,
    )
}

pub(super) fn all_bodies() -> Error {
    let why = "the bodies of all requests take too much memory together; try again later";
    error(StatusCode::SERVICE_UNAVAILABLE, SERVER, "all_bodies", why)
}

pub(super) fn user_connections(user: Option<u32>, limit: usize) -> Error {
    let whose = match user {
        Some(user) => format!("user {user} has {limit} connections already"),
        None => format!("{limit} connections over TCP have sent no key yet"),
    };
    let why = format!("{whose}; close one, or send several requests on one");
    error(
        StatusCode::TOO_MANY_REQUESTS,
        RATE_LIMIT,
        "user_connections",
        why,
    )
}

pub(super) fn all_connections(limit: usize) -> Error {
    let why = format!("there are {limit} connections already; try again later");
    error(
        StatusCode::SERVICE_UNAVAILABLE,
        SERVER,
        "all_connections",
        why,
    )
}

pub(super) fn unknown_path(path: &str) -> Error {
    let why = format!("there is no {path:?}; the manual lists the paths");
    error(StatusCode::NOT_FOUND, INVALID, "unknown_url", why)
}

pub(super) fn wrong_method(method: &str, path: &str) -> Error {
    let why = format!("{path:?} does not take {method}; the manual has the method of each path");
    error(
        StatusCode::METHOD_NOT_ALLOWED,
        INVALID,
        "method_not_allowed",
        why,
    )
}

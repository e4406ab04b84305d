//! The body of a request, before its fields are known.

use axum::body::Bytes;

use super::super::error::Error;
use super::super::raw;

/// Bodies with more bytes are decoded on a thread that may be busy for long.
const LARGE: usize = 64 << 10;

/// Returns the text of a body.
///
/// # Errors
/// If it is not UTF-8, or nests too deep.
pub(in crate::http) fn text(body: &[u8]) -> Result<&str, Error> {
    let text = std::str::from_utf8(body).map_err(|error| {
        let at = error.valid_up_to();
        Error::invalid(None, format!("the body is not valid UTF-8 at byte {at}"))
    })?;
    let depth = raw::depth(text);
    if depth > raw::DEEPEST {
        let most = raw::DEEPEST;
        let why = format!("the body nests {depth} deep; {most} are allowed");
        return Err(Error::invalid(None, why));
    }
    Ok(text)
}

/// Decodes a body with `read`.
///
/// # Errors
/// Those of `read`.
pub(in crate::http) async fn decode<T: Send + 'static>(
    body: Bytes,
    read: fn(&[u8]) -> Result<T, Error>,
) -> Result<T, Error> {
    if body.len() <= LARGE {
        return read(&body);
    }
    let decoded = tokio::task::spawn_blocking(move || read(&body));
    decoded.await.unwrap_or_else(|_| {
        let why = "the body could not be decoded; report this";
        Err(Error::invalid(None, why))
    })
}

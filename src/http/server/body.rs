//! Reads the body of a request before its handler runs: within the limits of bytes, and in bounded time.

use std::time::Duration;

use axum::body::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::time::{Instant, timeout_at};

use super::bodies::Share;
use super::times::Times;
use crate::http::error::Error;
use crate::http::refusals;

/// The bytes whose arrival gives a body another second. A sender at that rate keeps the memory of 16 MiB for less than five
/// minutes.
const SECOND: usize = 64 << 10;

/// A body and the share that counts it.
struct Counted {
    bytes: Vec<u8>,
    _share: Share,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns the whole body, which counts as `share` until it is dropped. Nothing is read of one whose announced length
/// exceeds `largest`.
pub(super) async fn read(
    mut body: Incoming,
    mut share: Share,
    largest: usize,
    times: Times,
) -> Result<Bytes, Error> {
    let announced = body.size_hint().exact();
    let announced = announced.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    if announced.is_some_and(|bytes| bytes > largest) {
        return Err(refusals::too_large(largest));
    }
    // Memory that nothing is written to is not used.
    let mut bytes = Vec::with_capacity(announced.unwrap_or(0));
    let begun = Instant::now();
    loop {
        let rate = Duration::from_secs((bytes.len() / SECOND) as u64);
        let until = (Instant::now() + times.silence).min(begun + times.body + rate);
        let frame = timeout_at(until, body.frame()).await;
        let Some(frame) = frame.map_err(|_| refusals::slow_body())? else {
            break;
        };
        let frame = frame.map_err(|_| refusals::broken_body())?;
        // Trailers mean nothing here.
        if let Ok(data) = frame.into_data() {
            share.grow(data.len())?;
            bytes.extend_from_slice(&data);
        }
    }
    Ok(Bytes::from_owner(Counted {
        bytes,
        _share: share,
    }))
}

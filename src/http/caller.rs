//! Who calls: the user of a connection, and the name of the connection for the engine.
//!
//! The peer of a UNIX socket is the user that the kernel names, or the one that `http.users` sets for its socket. A peer over
//! TCP gives a key with each request: any program of the machine can connect to a port. On UNIX sockets a key is ignored,
//! because every client library sends one.

use std::io;

use axum::http::{HeaderMap, header};
use tokio::net::UnixStream;

use super::config::HttpConfig;
use super::error::Error;
use super::refusals;
use crate::engine::ConnectionName;

/// The scheme of the header `Authorization`, in any case.
const SCHEME: &str = "bearer";
/// The header of clients of Anthropic's API, whose value is the key.
const ANTHROPIC_KEY: &str = "x-api-key";

/// How the user of a connection is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    /// All its requests are this user's.
    User(u32),
    /// Each request has a key.
    Key,
}

impl Identity {
    /// Returns that of the peer of a UNIX socket.
    ///
    /// # Errors
    /// If the kernel does not name the peer.
    pub(super) fn of_unix(
        stream: &UnixStream,
        socket: &str,
        config: &HttpConfig,
    ) -> io::Result<Self> {
        if let Some(user) = config.users.get(socket) {
            return Ok(Self::User(*user));
        }
        Ok(Self::User(stream.peer_cred()?.uid()))
    }

    /// Returns the user of a request with these headers.
    ///
    /// # Errors
    /// A missing or an unknown key.
    pub(super) fn user(self, headers: &HeaderMap, config: &HttpConfig) -> Result<u32, Error> {
        match self {
            Self::User(user) => Ok(user),
            Self::Key => {
                let keys = config.keys.as_ref().ok_or_else(refusals::no_keys)?;
                let key = key(headers).ok_or_else(refusals::no_key)?;
                keys.user(key).ok_or_else(refusals::unknown_key)
            }
        }
    }
}

/// Returns the name of connection `number`. Names on the bus begin with a colon.
pub(super) fn connection_name(number: u64) -> ConnectionName {
    format!("http:{number}").into()
}

/// Returns the key of a request, if it has exactly one. `Authorization` counts before `x-api-key`.
fn key(headers: &HeaderMap) -> Option<&[u8]> {
    let key = if headers.contains_key(header::AUTHORIZATION) {
        let value = only(headers, header::AUTHORIZATION.as_str())?;
        let (scheme, key) = value.split_at_checked(SCHEME.len())?;
        let is_bearer = scheme.eq_ignore_ascii_case(SCHEME.as_bytes());
        key.strip_prefix(b" ").filter(|_| is_bearer)?
    } else {
        only(headers, ANTHROPIC_KEY)?
    };
    Some(key.trim_ascii()).filter(|key| !key.is_empty())
}

/// Returns the value of a header that is there once.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a [u8]> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?.as_bytes();
    all.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_key_is_one_bearer_token() {
        assert_eq!(key(&headers(&["Bearer abc"])), Some(&b"abc"[..]));
        assert_eq!(key(&headers(&["bearer  abc "])), Some(&b"abc"[..]));
        for wrong in [
            &[][..],
            &["Basic abc"],
            &["Bearer"],
            &["Bearer "],
            &["Bearer a", "Bearer a"],
        ] {
            assert_eq!(key(&headers(wrong)), None, "{wrong:?}");
        }
    }

    #[test]
    fn clients_of_anthropic_have_a_header_of_their_own() {
        let mut both = headers(&[]);
        both.append(ANTHROPIC_KEY, "abc ".parse().unwrap());
        assert_eq!(key(&both), Some(&b"abc"[..]));
        both.append(header::AUTHORIZATION, "Bearer def".parse().unwrap());
        assert_eq!(key(&both), Some(&b"def"[..]));
        let mut two = headers(&[]);
        for _ in 0..2 {
            two.append(ANTHROPIC_KEY, "abc".parse().unwrap());
        }
        assert_eq!(key(&two), None);
    }

    #[test]
    fn a_request_over_tcp_without_a_known_key_is_refused() {
        let config = HttpConfig::default();
        let refused = Identity::Key.user(&headers(&["Bearer abc"]), &config);
        assert_eq!(refused, Err(refusals::no_keys()));
        let config = HttpConfig {
            keys: Some(crate::http::keys::Keys::default()),
            ..config
        };
        let refused = |values| Identity::Key.user(&headers(values), &config);
        assert_eq!(refused(&[]), Err(refusals::no_key()));
        assert_eq!(refused(&["Bearer abc"]), Err(refusals::unknown_key()));
        assert_eq!(
            Identity::User(7).user(&headers(&["Bearer abc"]), &config),
            Ok(7)
        );
    }
}

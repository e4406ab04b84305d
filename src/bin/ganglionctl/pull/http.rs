//! Downloads over HTTP: follows redirects, resumes after an interruption, and restarts if a server cannot resume.
//!
//! The crate hf-hub is not used. It keeps files in a cache of its own by path, follows redirects between hosts itself,
//! and supports only Hugging Face. This module writes through a descriptor of `folder`, hashes the data as it arrives,
//! and works with any server.

use std::fs::File;
use std::io::ErrorKind;
use std::thread;
use std::time::Duration;

use nix::unistd::geteuid;
use ureq::http::Response;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body};

use super::address::{Url, follow, is_https, is_hugging_face};
use super::part::Part;
use crate::checksum;
use crate::failure::{Exit, Failure, Outcome, bail, ensure, failure};

type Answer = Response<Body>;

const REDIRECTS: usize = 10;

/// Hugging Face's header with the SHA-256 of a large file.
const LINKED_ETAG: &str = "x-linked-etag";
/// Hugging Face's header with the length of a large file.
const LINKED_SIZE: &str = "x-linked-size";
/// The variable with the token for files behind an agreement on Hugging Face.
const TOKEN: &str = "HF_TOKEN";

const UNTRUSTED: &str =
    "; is the clock right (date), and are the certificates of the package ca-certificates there?";

/// Variables with files of certificates that replace the system's.
const CERTIFICATES: &[&str] = &["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Downloads the rest of `url` into `part`. Gives up after more than `retries` attempts in a row without data.
///
/// # Errors
/// Refusals of the server or the disk. Received data stays for the next run.
pub(super) fn fetch(url: &Url, part: &mut Part<'_>, retries: u32) -> Outcome {
    if is_https(url) {
        certificates()?;
    }
    let agent = agent();
    let mut fruitless = 0;
    loop {
        let before = part.length;
        let why = match attempt(&agent, url, part) {
            Err(busy) if busy.exit == Exit::Busy => busy.message,
            done => return done,
        };
        let came = part.length;
        fruitless = if came > before { 0 } else { fruitless + 1 };
        if fruitless > retries {
            let failure = failure!(Unavailable: "{url}: {why}");
            return Err(failure.and(match came {
                0 => "nothing came".into(),
                _ => format!("{came} bytes were received and kept: run it again to resume"),
            }));
        }
        part.say(&format!("{why}; trying again"));
        // The delay grows with each attempt.
        thread::sleep(Duration::from_millis(100 << fruitless.min(8)));
    }
}

/// Checks that the named certificates can be read. Otherwise every server would be untrusted, without an explanation.
fn certificates() -> Outcome {
    for variable in CERTIFICATES {
        let named = std::env::var_os(variable).unwrap_or_default();
        for path in std::env::split_paths(&named) {
            if let Err(error) = File::open(&path)
                && error.kind() == ErrorKind::PermissionDenied
            {
                bail!(
                    Failed: "{variable}={}: {error}: user {}, who fetches this, must be able to read it",
                    path.display(), geteuid()
                );
            }
        }
    }
    Ok(())
}

fn agent() -> Agent {
    Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_connect(Some(Duration::from_secs(30)))
        .timeout_per_read(Some(Duration::from_secs(60)))
        .tls_config(
            // The system's certificates may include that of a company's proxy.
            TlsConfig::builder()
                .root_certs(RootCerts::PlatformVerifier)
                .build(),
        )
        .user_agent(concat!("ganglionctl/", env!("CARGO_PKG_VERSION")))
        .build()
        .into()
}

/// Requests the missing part once. The error is `Busy` if another attempt may succeed.
fn attempt(agent: &Agent, url: &Url, part: &mut Part<'_>) -> Outcome {
    // Without the name of its version, the received part may belong to another version.
    let version = part.version(url.as_str()).filter(|_| part.length > 0);
    let response = ask(agent, url, part, version.as_deref())?;
    let length = text(&response, "content-length").and_then(|value| value.parse::<u64>().ok());
    let range = text(&response, "content-range").unwrap_or_default();
    let strong = text(&response, "etag").filter(|version| !version.starts_with("W/"));
    let continues = range.starts_with(&format!("bytes {}-", part.length))
        && strong.is_none_or(|strong| Some(strong) == version.as_deref());
    let total = match response.status().as_u16() {
        206 if continues => length.map(|more| part.length.saturating_add(more)),
        200 => {
            part.begin(strong.map(|strong| (url.as_str(), strong)))?;
            length
        }
        // The file is complete already.
        416 if range == format!("bytes */{}", part.length) => return Ok(()),
        206 | 416 => {
            part.begin(None)?;
            bail!(Busy: "the server sent another part than requested");
        }
        500..600 | 408 | 429 => bail!(Busy: "the server answered {}", response.status()),
        status => return Err(refused(url, status)),
    };
    let cut = |error| failure!(Busy: "{error}");
    part.append(&mut response.into_body().into_reader(), total, cut)?;
    let came = part.length;
    let total = total.unwrap_or(came);
    ensure!(came == total, Busy: "the connection was cut after {came} of {total} bytes");
    Ok(())
}

fn text<'a>(response: &'a Answer, header: &str) -> Option<&'a str> {
    response.headers().get(header)?.to_str().ok()
}

/// Converts the status of a refusal.
fn refused(url: &Url, status: u16) -> Failure {
    let helps = match status {
        401 | 403 => {
            "it is behind an agreement or private: accept it on the site, then set HF_TOKEN: sudo HF_TOKEN=... ganglionctl pull"
        }
        404 => "does the file exist? its name is case-sensitive",
        _ => "the server refuses it",
    };
    failure!(Unavailable: "{url}: the server answered {status}; {helps}")
}

/// Converts the error of a request without an answer.
fn unanswered(url: &Url, error: ureq::Error) -> Failure {
    let helps = match &error {
        ureq::Error::BadUri(_) | ureq::Error::Http(_) | ureq::Error::HostNotFound => "",
        // A board whose clock has no battery starts in the past, when no certificate is valid yet.
        ureq::Error::Rustls(_) => UNTRUSTED,
        ureq::Error::Io(error) if error.kind() == ErrorKind::InvalidData => UNTRUSTED,
        _ => return failure!(Busy: "{}", error.into_io()),
    };
    failure!(Unavailable: "{url}: {error}{helps}")
}

/// Returns the answer after all redirects. They are followed here because Hugging Face's first answer has the checksum,
/// and a token must not go to another host.
fn ask(agent: &Agent, url: &Url, part: &mut Part<'_>, version: Option<&str>) -> Outcome<Answer> {
    let token = std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
    let (mut at, mut sha256, mut bytes) = (url.to_owned(), None, None);
    for _ in 0..=REDIRECTS {
        let mut request = agent.get(at.as_str()).header("accept-encoding", "identity");
        if let Some(token) = token.as_deref().filter(|_| is_hugging_face(&at)) {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some(version) = version {
            request = request.header("range", format!("bytes={}-", part.length));
            request = request.header("if-range", version);
        }
        let response = request.call().map_err(|error| unanswered(&at, error))?;
        let reported = text(&response, LINKED_ETAG).map(|etag| etag.trim_matches('"'));
        sha256 = sha256.or_else(|| reported.and_then(checksum::parse));
        bytes = bytes.or_else(|| text(&response, LINKED_SIZE)?.parse().ok());
        let leads = response.status().is_redirection();
        let Some(location) = text(&response, "location").filter(|_| leads) else {
            if let (Some(reported), Some(wanted)) = (&sha256, &part.wanted) {
                ensure!(
                    reported == wanted,
                    Data: "{url}: the server's file has the SHA-256 {reported}, and {wanted} was expected: it was not fetched"
                );
            }
            part.take_facts(sha256, bytes)?;
            return Ok(response);
        };
        at = follow(&at, location).map_err(|why| failure!(Unavailable: "{at}: {why}"))?;
    }
    bail!(Unavailable: "{url}: more than {REDIRECTS} redirects")
}

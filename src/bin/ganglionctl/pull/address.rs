//! What `pull` was asked for: a name, a file of Hugging Face, a URL, or a file here.

use std::path::{Path, PathBuf};

use super::source::Source;
use crate::failure::{Outcome, bail, failure};
use crate::models;

/// Stands for https://huggingface.co, as Hugging Face's own tools have it.
const ENDPOINT: &str = "HF_ENDPOINT";

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Address {
    Remote(String),
    File(PathBuf),
}

/// Where a model comes from.
pub(super) enum From<'a> {
    Server(&'a str),
    File(Source),
}

impl Address {
    /// What was typed.
    ///
    /// # Errors
    /// If it is none of these; the message lists them.
    pub(super) fn of(typed: &str) -> Outcome<Self> {
        if typed.starts_with("http://") || typed.starts_with("https://") {
            return Ok(Self::Remote(typed.into()));
        }
        if let Some(model) = models::named(typed) {
            return Ok(hugging_face(
                &model.repository,
                &model.revision,
                &model.file,
            ));
        }
        if Path::new(typed).is_file() {
            return Ok(Self::File(typed.into()));
        }
        if let Some((repository, file)) = typed.split_once(':')
            && repository
                .split('/')
                .filter(|part| !part.is_empty())
                .count()
                == 2
            && repository.matches('/').count() == 1
            && !file.is_empty()
        {
            return Ok(hugging_face(repository, "main", file));
        }
        let known: Vec<_> = models::all().into_iter().map(|model| model.name).collect();
        Err(failure!(
            Usage,
            "{typed:?} is no file here, no URL, no OWNER/REPOSITORY:FILE and none of {}",
            known.join(", ")
        ))
    }

    /// Where it can be had from.
    ///
    /// # Errors
    /// If it is a file here that cannot be read.
    pub(super) fn open(&self) -> Outcome<From<'_>> {
        match self {
            Self::Remote(url) => Ok(From::Server(url)),
            Self::File(path) => Source::open(path).map(From::File),
        }
    }

    /// Under which name it is kept.
    ///
    /// # Errors
    /// If the address ends in none of a model.
    pub(super) fn file_name(&self) -> Outcome<String> {
        let name = match self {
            Self::Remote(url) => {
                let path = url.split(['?', '#']).next().unwrap_or_default();
                let below = path.splitn(4, '/').nth(3).unwrap_or_default();
                below.rsplit('/').next().unwrap_or_default().to_owned()
            }
            Self::File(file) => file
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
        };
        if name.starts_with('.') || !name.to_lowercase().ends_with(".gguf") {
            bail!(Usage, "{self:?} ends in no name of a GGUF file");
        }
        Ok(name)
    }
}

fn hugging_face(repository: &str, revision: &str, file: &str) -> Address {
    let endpoint = endpoint();
    let endpoint = endpoint.trim_end_matches('/');
    Address::Remote(format!("{endpoint}/{repository}/resolve/{revision}/{file}"))
}

fn endpoint() -> String {
    let set = std::env::var(ENDPOINT).ok();
    set.filter(|endpoint| !endpoint.is_empty())
        .unwrap_or_else(|| "https://huggingface.co".into())
}

/// Whether that is Hugging Face, or what stands for it: the only one that is told the user's token.
pub(super) fn is_hugging_face(url: &str) -> bool {
    origin(url) == origin(&endpoint())
}

/// Scheme, host and port.
fn origin(url: &str) -> String {
    let parts: Vec<_> = url.splitn(4, '/').take(3).collect();
    parts.join("/").to_lowercase()
}

pub(super) fn is_https(url: &str) -> bool {
    scheme(url) == "https"
}

fn scheme(url: &str) -> String {
    let (scheme, _) = url.split_once("://").unwrap_or_default();
    scheme.to_lowercase()
}

/// Where a redirect from `url` to `location` leads.
///
/// # Errors
/// Why it must not be followed.
pub(super) fn follow(url: &str, location: &str) -> Result<String, String> {
    let to = join(url, location);
    match scheme(&to).as_str() {
        "https" => Ok(to),
        "http" if !is_https(url) => Ok(to),
        "http" => Err(format!(
            "the server sends it on to {to:?}, where anybody on the way could change it: it was not fetched"
        )),
        _ => Err(format!(
            "the server sends it on to {to:?}, which is not http(s)"
        )),
    }
}

fn join(url: &str, location: &str) -> String {
    if location.contains("://") {
        return location.into();
    }
    let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
    if let Some(host) = location.strip_prefix("//") {
        return format!("{scheme}://{host}");
    }
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    if location.starts_with('/') {
        return format!("{scheme}://{host}{location}");
    }
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let folder = path
        .rsplit_once('/')
        .map_or(String::new(), |(folder, _)| format!("{folder}/"));
    format!("{scheme}://{host}/{folder}{location}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_told_apart() {
        let name = |typed: &str| {
            Address::of(typed)
                .and_then(|address| address.file_name())
                .ok()
        };
        assert_eq!(
            name("https://host/a/b.gguf?download=true").as_deref(),
            Some("b.gguf")
        );
        assert_eq!(name("Owner/Repo:sub/x.gguf").as_deref(), Some("x.gguf"));
        assert_eq!(name("qwen3-0.6b").as_deref(), Some("Qwen3-0.6B-Q8_0.gguf"));
        for wrong in [
            "https://host/",
            "https://host",
            "https://host/a.zip",
            "https://host/.gguf",
            "nonsense",
            "a:b",
            "a/b/c:d",
            "/a:b",
            "a/b:",
        ] {
            assert_eq!(name(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_redirect_does_not_leave_https() {
        let ok = |url, location| follow(url, location).is_ok();
        for (url, location, expected) in [
            ("https://host/a", "http://host/a", false),
            ("HTTPS://host/a", "HTTP://other/a", false),
            ("https://host/a", "hTTp://host/a", false),
            ("https://host/a", "//other/a", true),
            ("https://host/a", "/b", true),
            ("https://host/a", "HTTPS://other/a", true),
            ("http://host/a", "http://other/a", true),
            ("http://host/a", "https://other/a", true),
            ("http://host/a", "file:///etc/passwd", false),
            ("https://host/a", "ftp://host/a", false),
        ] {
            assert_eq!(ok(url, location), expected, "{url} to {location}");
        }
    }

    #[test]
    fn redirects_lead_where_they_say() {
        for (location, to) in [
            ("http://other/x", "http://other/x"),
            ("//other/x", "https://other/x"),
            ("/x?y", "https://host/x?y"),
            ("x", "https://host/a/x"),
        ] {
            assert_eq!(join("https://host/a/b?c/d", location), to);
        }
    }
}

//! The source that `pull` was given: a name, a file of Hugging Face, a URL, or a local file.

use std::fs::File;
use std::path::{Path, PathBuf};

use fluent_uri::{Uri, UriRef};

use super::walk;
use crate::failure::{Exit, OrFail as _, Outcome, bail, failure};
use crate::models;

/// The variable that replaces https://huggingface.co, as for Hugging Face's own tools.
const ENDPOINT: &str = "HF_ENDPOINT";

pub(super) type Url = Uri<String>;

/// The source of a model.
#[derive(Debug)]
pub(super) enum Address {
    Remote(Url),
    File(PathBuf, File),
}

impl Address {
    /// Parses the argument. A local file is opened as the present user.
    pub(super) fn of(typed: &str) -> Outcome<Self> {
        if typed.starts_with("http://") || typed.starts_with("https://") {
            return remote(typed);
        }
        if let Some(model) = models::named(typed) {
            return hugging_face(&model.repository, &model.revision, &model.file);
        }
        if Path::new(typed).is_file() {
            return Ok(Self::File(typed.into(), walk::source(Path::new(typed))?));
        }
        if let Some((repository, file)) = typed.split_once(':')
            && let [owner, name] = repository.split('/').collect::<Vec<_>>()[..]
            && ![owner, name, file].contains(&"")
        {
            return hugging_face(repository, "main", file);
        }
        let known: Vec<_> = models::all().into_iter().map(|model| model.name).collect();
        Err(failure!(
            Usage: "model {typed:?} not found; give a name ({}), a file, a URL, or OWNER/REPOSITORY:FILE", known.join(", ")
        ))
    }

    /// Returns the name of the file to store.
    pub(super) fn file_name(&self) -> Outcome<String> {
        let path = match self {
            Self::Remote(url) => url.path().as_str().into(),
            Self::File(path, _) => path.to_string_lossy(),
        };
        let name = path.rsplit('/').next().unwrap_or_default();
        if name.starts_with('.') || !name.to_lowercase().ends_with(".gguf") {
            bail!(Usage: "{path:?} does not end in the name of a GGUF file");
        }
        Ok(name.to_owned())
    }
}

fn remote(url: &str) -> Outcome<Address> {
    let parsed = Uri::parse(url).or_fail(Exit::Usage, format_args!("{url:?}"))?;
    Ok(Address::Remote(parsed.to_owned()))
}

fn hugging_face(repository: &str, revision: &str, file: &str) -> Outcome<Address> {
    let endpoint = endpoint();
    let endpoint = endpoint.trim_end_matches('/');
    remote(&format!(
        "{endpoint}/{repository}/resolve/{revision}/{file}"
    ))
}

fn endpoint() -> String {
    let set = std::env::var(ENDPOINT).ok();
    set.filter(|endpoint| !endpoint.is_empty())
        .unwrap_or_else(|| "https://huggingface.co".into())
}

/// Whether the URL is on Hugging Face, or on its replacement: only this server gets the user's token.
pub(super) fn is_hugging_face(url: &Url) -> bool {
    let endpoint = endpoint();
    let endpoint = Uri::parse(endpoint.as_str());
    endpoint.is_ok_and(|endpoint| origin(&url.borrow()) == origin(&endpoint))
}

/// Returns scheme, host and port.
fn origin(url: &Uri<&str>) -> (String, Option<String>) {
    let authority = url.authority();
    let authority = authority.map(|authority| authority.as_str().to_lowercase());
    (url.scheme().as_str().to_lowercase(), authority)
}

pub(super) fn is_https(url: &Url) -> bool {
    scheme(url) == "https"
}

fn scheme(url: &Url) -> String {
    url.scheme().as_str().to_lowercase()
}

/// Returns the target of a redirect from `url` to `location`.
pub(super) fn follow(url: &Url, location: &str) -> Result<Url, String> {
    let to = UriRef::parse(location).ok();
    let to = to.and_then(|to| to.resolve_against(&url.strip_fragment()).ok());
    match to {
        Some(to) if is_https(&to) || scheme(&to) == "http" && !is_https(url) => Ok(to),
        Some(to) if scheme(&to) == "http" => Err(format!(
            "the server redirects to {:?}, which is not encrypted: it was not fetched",
            to.as_str()
        )),
        _ => Err(format!(
            "the server redirects to {location:?}, which is not http(s)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_classified() {
        let name = |typed| Address::of(typed).and_then(|address| address.file_name());
        for (typed, expected) in [
            ("https://host/a/b.gguf?download=true", "b.gguf"),
            ("Owner/Repo:sub/x.gguf", "x.gguf"),
            ("qwen3-0.6b", "Qwen3-0.6B-Q8_0.gguf"),
        ] {
            assert_eq!(name(typed).ok().as_deref(), Some(expected));
        }
        let wrong = "https://host/ https://host https://host/a.zip https://host/.gguf nonsense a:b a/b/c:d /a:b a/b:";
        for wrong in wrong.split(' ') {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_redirect_does_not_leave_https() {
        let ok = |url: &str, location| {
            let url = Uri::parse(url.to_owned()).expect("a URL");
            follow(&url, location).is_ok()
        };
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
            ("https://other/x", "https://other/x"),
            ("//other/x", "https://other/x"),
            ("/x?y", "https://host/x?y"),
            ("x", "https://host/a/x"),
        ] {
            let url = Uri::parse("https://host/a/b?c/d".to_owned()).expect("a URL");
            let led = follow(&url, location);
            assert_eq!(led.map(Uri::into_string).as_deref(), Ok(to));
        }
    }
}

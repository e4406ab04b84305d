//! How the models of one family write calls of tools: a file for each, which names no model. The chat template of a model
//! tells which it is.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use serde::Deserialize;

/// What stands in a pattern for the name of a tool, and for the JSON object of its arguments.
const NAME: &str = "{name}";
const ARGUMENTS: &str = "{arguments}";

/// Bytes of a file.
const LONGEST: u64 = 64 << 10;

/// The formats that are known, in the order in which they are tried.
#[derive(Clone, Debug, Default)]
pub struct Formats(Vec<Arc<Format>>);

/// How calls are written. Each piece is text, in which special tokens are spelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// That of its file.
    pub name: String,
    template: Vec<String>,
    without: Vec<String>,
    /// What the calls begin with; text is before it. Without one an answer calls if it begins as a call does.
    pub(super) trigger: Option<String>,
    /// Before the first call.
    pub(super) begin: String,
    /// Before the name of each.
    pub(super) open: String,
    /// Between name and arguments.
    pub(super) middle: String,
    /// After the arguments.
    pub(super) close: String,
    /// Between two calls.
    pub(super) separator: String,
    /// After the last.
    pub(super) end: String,
    pub(super) parallel: bool,
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    template: Vec<String>,
    #[serde(default)]
    without: Vec<String>,
    trigger: Option<String>,
    #[serde(default)]
    begin: String,
    call: String,
    #[serde(default)]
    separator: String,
    #[serde(default)]
    end: String,
    #[serde(default)]
    parallel: bool,
}

/// Why a file is no format.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    #[error("{}: {error}", path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("{}: {why}; config/tools/hermes.toml explains the keys", path.display())]
    Wrong { path: PathBuf, why: String },
}

impl Formats {
    /// All `.toml` files of a folder, in the order of their names; none if there is no such folder.
    ///
    /// # Errors
    /// If one cannot be read, or is no format.
    pub fn read(folder: &Path) -> Result<Self, FormatError> {
        let unread = |path: &Path, error| FormatError::Read {
            path: path.into(),
            error,
        };
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            entries => entries.map_err(|error| unread(folder, error))?,
        };
        let mut paths = Vec::new();
        for entry in entries {
            paths.push(entry.map_err(|error| unread(folder, error))?.path());
        }
        paths.retain(|path| path.extension().is_some_and(|end| end == "toml"));
        paths.sort();
        let each = paths.iter().map(|path| {
            let length = fs::metadata(path)
                .map_err(|error| unread(path, error))?
                .len();
            let text = if length > LONGEST {
                Err(io::Error::other(format!(
                    "it has {length} bytes, and {LONGEST} are allowed"
                )))
            } else {
                fs::read_to_string(path)
            };
            let text = text.map_err(|error| unread(path, error))?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let format = Format::parse(&name, &text);
            format.map(Arc::new).map_err(|why| FormatError::Wrong {
                path: path.clone(),
                why,
            })
        });
        Ok(Self(each.collect::<Result<_, _>>()?))
    }

    /// How models with this chat template write calls.
    #[must_use]
    pub fn of(&self, template: &str) -> Option<&Arc<Format>> {
        self.0.iter().find(|format| {
            let has = |text: &String| template.contains(text.as_str());
            format.template.iter().all(has) && !format.without.iter().any(has)
        })
    }

    /// Their names, for people.
    #[must_use]
    pub fn names(&self) -> String {
        let names: Vec<_> = self.0.iter().map(|format| format.name.as_str()).collect();
        names.join(", ")
    }
}

impl Format {
    /// Reads a file's text.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let File {
            template,
            without,
            trigger,
            begin,
            call,
            separator,
            end,
            parallel,
        } = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        let parts = call.split_once(NAME).and_then(|(open, rest)| {
            let (middle, close) = rest.split_once(ARGUMENTS)?;
            Some((open, middle, close))
        });
        let Some((open, middle, close)) = parts else {
            return Err(format!("call has not {NAME} and after it {ARGUMENTS}"));
        };
        let format = Self {
            name: name.to_owned(),
            template,
            without,
            trigger,
            begin,
            open: open.into(),
            middle: middle.into(),
            close: close.into(),
            separator,
            end,
            parallel,
        };
        match format.defect() {
            Some(defect) => Err(defect.to_owned()),
            None => Ok(format),
        }
    }

    /// What would keep an answer from being read.
    fn defect(&self) -> Option<&'static str> {
        let first = |text: &str| text.chars().next();
        let starts = format!("{}{}", self.begin, self.open);
        let next = format!("{}{}", self.separator, self.open);
        let of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if self.template.is_empty() {
            Some("template is empty, and would fit each")
        } else if starts.is_empty() {
            Some("nothing is before the name of a call")
        } else if self.trigger.as_deref() == Some("") {
            Some("trigger is empty: leave it out where there is none")
        } else if self
            .trigger
            .iter()
            .any(|trigger| !starts.starts_with(trigger.as_str()))
        {
            Some("calls do not begin with trigger")
        } else if first(&self.middle).is_none_or(of_name) {
            Some("what follows {name} could belong to it")
        } else if self.parallel && next.is_empty() {
            Some("nothing is between two calls")
        } else if self.parallel && first(&self.end).is_some() && first(&self.end) == first(&next) {
            Some("end begins as another call does")
        } else {
            None
        }
    }

    /// Calls as these models write them: their names, and the JSON of their arguments.
    #[must_use]
    pub fn write<'a>(&self, calls: impl Iterator<Item = (&'a str, &'a str)>) -> String {
        let each = calls.map(|(name, arguments)| {
            [&self.open, name, &self.middle, arguments, &self.close].concat()
        });
        let each: Vec<_> = each.collect();
        [&self.begin, each.join(&self.separator).as_str(), &self.end].concat()
    }
}

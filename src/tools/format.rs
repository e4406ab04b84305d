//! The syntax in which the models of one family write tool calls. Each syntax is a file that names no model; a model's
//! chat template identifies its syntax.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use serde::Deserialize;

use super::arguments_file::ArgumentsFile;
use crate::guide::syntax::{Syntax, spelled};
use crate::model::Call;

/// Placeholders of a pattern: the name of a tool, the id of the call, and the JSON object of its arguments.
const NAME: &str = "{name}";
const ID: &str = "{id}";
const ARGUMENTS: &str = "{arguments}";

/// Letters and digits of an id, as Mistral's templates require.
pub(super) const ID_CHARS: usize = 9;

/// The most bytes of a file.
const LONGEST: u64 = 64 << 10;

/// The known formats, in the order in which they are tried.
#[derive(Clone, Debug, Default)]
pub struct Formats(Vec<Arc<Format>>);

/// The syntax of calls. Special tokens are spelled as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The name of its file.
    pub name: String,
    template: Vec<String>,
    without: Vec<String>,
    /// The beginning of the calls, which follow any text. Without a trigger, an answer consists of calls if it begins
    /// as a call does.
    pub(super) trigger: Option<String>,
    /// The text before the first call.
    pub(super) begin: String,
    /// The text before the name of each call.
    pub(super) open: String,
    /// The text between name and id, if calls have ids.
    pub(super) id: Option<String>,
    /// The text before the arguments.
    pub(super) middle: String,
    /// The text after the arguments.
    pub(super) close: String,
    /// The text between two calls.
    pub(super) separator: String,
    /// The text after the last call.
    pub(super) end: String,
    pub(super) parallel: bool,
    /// The syntax of arguments that are not a JSON object, in which special tokens are spelled.
    pub(super) syntax: Option<Arc<Syntax>>,
}

/// The content of a format's file.
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
    arguments: Option<ArgumentsFile>,
}

/// The reason why a file is not a valid format.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    #[error("{}: {error}", path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("{}: {why}; config/tools/hermes.toml and qwen3-xml.toml explain the keys", path.display())]
    Wrong { path: PathBuf, why: String },
}

impl Formats {
    /// Reads all `.toml` files of a folder in alphabetical order; none if there is no such folder.
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

    /// Returns the format of models with this chat template.
    #[must_use]
    pub fn of(&self, template: &str) -> Option<&Arc<Format>> {
        self.0.iter().find(|format| {
            let has = |text: &String| template.contains(text.as_str());
            format.template.iter().all(has) && !format.without.iter().any(has)
        })
    }

    /// Lists the names of the formats.
    #[must_use]
    pub fn names(&self) -> String {
        let names: Vec<_> = self.0.iter().map(|format| format.name.as_str()).collect();
        names.join(", ")
    }
}

impl Format {
    /// Parses a file's text.
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
            arguments,
        } = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        let parts = call.split_once(NAME).and_then(|(open, rest)| {
            let (between, close) = rest.split_once(ARGUMENTS)?;
            Some((open, between, close))
        });
        let Some((open, between, close)) = parts else {
            return Err(format!("call has not {NAME} and after it {ARGUMENTS}"));
        };
        if open.contains(ID) || close.contains(ID) {
            return Err(format!("{ID} is not between {NAME} and {ARGUMENTS}"));
        }
        let (id, middle) = match between.split_once(ID) {
            Some((id, middle)) => (Some(id.to_owned()), middle),
            None => (None, between),
        };
        let format = Self {
            name: name.to_owned(),
            template,
            without,
            trigger,
            begin,
            open: open.into(),
            id,
            middle: middle.into(),
            close: close.into(),
            separator,
            end,
            parallel,
            syntax: arguments
                .map(ArgumentsFile::syntax)
                .transpose()?
                .map(Arc::new),
        };
        match format.defect() {
            Some(defect) => Err(defect.to_owned()),
            None => Ok(format),
        }
    }

    /// Returns a property of the format that would make answers unreadable.
    fn defect(&self) -> Option<&'static str> {
        let first = |text: &str| text.chars().next();
        let starts = format!("{}{}", self.begin, self.open);
        let next = format!("{}{}", self.separator, self.open);
        let syntax = self.syntax.as_deref();
        let ambiguous = syntax.is_some_and(|syntax| {
            let next = spelled(&syntax.separator) + &spelled(&syntax.open);
            self.close.is_empty()
                || !next.is_empty()
                    && (next.starts_with(&self.close) || self.close.starts_with(&next))
        });
        let of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let after_name = self.id.as_ref().unwrap_or(&self.middle);
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
        } else if first(after_name).is_none_or(of_name) {
            Some("what follows {name} could belong to it")
        } else if first(&self.middle).is_none_or(of_name) {
            Some("what follows {id} could belong to it")
        } else if self.parallel && next.is_empty() {
            Some("nothing is between two calls")
        } else if self.parallel && first(&self.end).is_some() && first(&self.end) == first(&next) {
            Some("end begins as another call does")
        } else if ambiguous {
            Some("what follows {arguments} could begin another argument")
        } else {
            None
        }
    }

    /// Writes calls in this format.
    #[must_use]
    pub fn write(&self, calls: &[Call]) -> String {
        let each = calls.iter().map(|call| {
            let id = self
                .id
                .as_ref()
                .map_or(String::new(), |id| [id, &*call.id].concat());
            let arguments = match &self.syntax {
                Some(syntax) => {
                    let arguments = serde_json::from_str(&call.arguments);
                    spelled(&syntax.write(&arguments.unwrap_or_default()))
                }
                None => call.arguments.clone(),
            };
            let name = &call.name;
            [&self.open, name, &id, &self.middle, &arguments, &self.close]
                .map(String::as_str)
                .concat()
        });
        let each: Vec<_> = each.collect();
        [&self.begin, each.join(&self.separator).as_str(), &self.end].concat()
    }
}

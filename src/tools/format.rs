//! The syntax in which the models of one family write tool calls. Each syntax is a file that names no model; a model's
//! chat template identifies its syntax.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use serde::Deserialize;

use super::arguments_file::ArgumentsFile;
use super::format_defect::FormatDefect;
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
    #[error("{}: {error}; let the daemon's user read it, or remove it", path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("{}: it has {bytes} bytes, and {LONGEST} are allowed; shorten it, or remove it", path.display())]
    TooLong { path: PathBuf, bytes: u64 },
    #[error(
        "{}: {defect}; /usr/share/ganglion/tools/hermes.toml and qwen3-xml.toml explain the keys",
        path.display()
    )]
    Wrong { path: PathBuf, defect: FormatDefect },
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
            let metadata = fs::metadata(path).map_err(|error| unread(path, error))?;
            if metadata.len() > LONGEST {
                return Err(FormatError::TooLong {
                    path: path.clone(),
                    bytes: metadata.len(),
                });
            }
            let text = fs::read_to_string(path).map_err(|error| unread(path, error))?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let format = Format::parse(&name, &text);
            format.map(Arc::new).map_err(|defect| FormatError::Wrong {
                path: path.clone(),
                defect,
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
    pub fn parse(name: &str, text: &str) -> Result<Self, FormatDefect> {
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
        } = toml::from_str(text).map_err(|error| FormatDefect::toml(text, &error))?;
        let misplaced = |remedy| FormatDefect::value("call", &call, remedy);
        let parts = call.split_once(NAME).and_then(|(open, rest)| {
            let (between, close) = rest.split_once(ARGUMENTS)?;
            Some((open, between, close))
        });
        let Some((open, between, close)) = parts else {
            return Err(misplaced("write {name} in it, and {arguments} after that"));
        };
        if open.contains(ID) || close.contains(ID) {
            return Err(misplaced(
                "write {id} between {name} and {arguments}, or remove it",
            ));
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
        format.check_beginning(&call)?;
        format.check_name(&call)?;
        format.check_end(&call)?;
        Ok(format)
    }

    /// Checks that an answer shows where its calls begin.
    fn check_beginning(&self, call: &str) -> Result<(), FormatDefect> {
        if self.template.is_empty() {
            return Err(FormatDefect::value(
                "template",
                &self.template,
                "list texts of the model's chat template, or it would fit each",
            ));
        }
        let starts = format!("{}{}", self.begin, self.open);
        if starts.is_empty() {
            return Err(FormatDefect::value(
                "call",
                &call,
                "write a text before {name}, or as begin",
            ));
        }
        let Some(trigger) = self.trigger.as_deref() else {
            return Ok(());
        };
        let remedy = if trigger.is_empty() {
            "remove it if calls have no trigger"
        } else if !starts.starts_with(trigger) {
            "write the text with which begin starts, or else call"
        } else {
            return Ok(());
        };
        Err(FormatDefect::value("trigger", &trigger, remedy))
    }

    /// Checks that a call shows where its name and its id end.
    fn check_name(&self, call: &str) -> Result<(), FormatDefect> {
        let of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let belongs = |text: &str| first(text).is_none_or(of_name);
        let remedy = if belongs(self.id.as_ref().unwrap_or(&self.middle)) {
            "write a character after {name} that is not a letter, a digit, _ or -: it could belong to the name"
        } else if belongs(&self.middle) {
            "write a character after {id} that is not a letter, a digit, _ or -: it could belong to the id"
        } else {
            return Ok(());
        };
        Err(FormatDefect::value("call", &call, remedy))
    }

    /// Checks that an answer shows where its calls and their arguments end.
    fn check_end(&self, call: &str) -> Result<(), FormatDefect> {
        let next = format!("{}{}", self.separator, self.open);
        if self.parallel && next.is_empty() {
            return Err(FormatDefect::value(
                "separator",
                &self.separator,
                "write a text that is between two calls, or remove parallel",
            ));
        }
        if self.parallel && first(&self.end).is_some() && first(&self.end) == first(&next) {
            return Err(FormatDefect::value(
                "end",
                &self.end,
                "begin it with another character: another call begins with the same one",
            ));
        }
        let is_ambiguous = self.syntax.as_deref().is_some_and(|syntax| {
            let next = spelled(&syntax.separator) + &spelled(&syntax.open);
            self.close.is_empty()
                || !next.is_empty()
                    && (next.starts_with(&self.close) || self.close.starts_with(&next))
        });
        if is_ambiguous {
            return Err(FormatDefect::value(
                "call",
                &call,
                "write a text after {arguments} that could not begin another argument",
            ));
        }
        Ok(())
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

fn first(text: &str) -> Option<char> {
    text.chars().next()
}

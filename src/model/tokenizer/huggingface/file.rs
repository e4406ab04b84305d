//! A JSON file of a model's directory, and errors about it.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::model::checkpoint::read_text;
use crate::model::error::Defect;
use crate::model::language_error::LanguageError;

/// The most bytes of such a file, twice those of the largest vocabularies.
const LONGEST: u64 = 64 << 20;

#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
    pub(super) json: Value,
}

impl File {
    /// Reads a file in the folder of `path`, if it exists.
    pub(super) fn sibling(path: &Path, name: &str) -> Result<Option<Self>, LanguageError> {
        let path = path.with_file_name(name);
        path.exists().then(|| Self::read(&path)).transpose()
    }

    pub(super) fn read(path: &Path) -> Result<Self, LanguageError> {
        let text = read_text(path, LONGEST).map_err(|defect| match defect {
            Defect::Io(source) => LanguageError::Read {
                path: path.to_owned(),
                source,
            },
            defect => LanguageError::File {
                path: path.to_owned(),
                defect: defect.to_string(),
            },
        })?;
        let json = serde_json::from_str(&text).map_err(|error| LanguageError::File {
            path: path.to_owned(),
            defect: format!("it is not JSON: {error}"),
        })?;
        Ok(Self {
            path: path.to_owned(),
            json,
        })
    }

    pub(super) fn object(&self, key: &str) -> Result<&Map<String, Value>, LanguageError> {
        let object = self.json.get(key).and_then(Value::as_object);
        object.ok_or_else(|| self.lacks(&format!("{key}, an object")))
    }

    /// Returns the values under `key`: none, one, or a list.
    pub(super) fn values(&self, key: &str) -> Vec<&Value> {
        match self.json.get(key) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(values)) => values.iter().collect(),
            Some(value) => vec![value],
        }
    }

    pub(super) fn lacks(&self, what: &str) -> LanguageError {
        LanguageError::File {
            path: self.path.clone(),
            defect: format!("it lacks {what}"),
        }
    }

    pub(super) fn unreadable(&self, error: &dyn std::error::Error) -> LanguageError {
        LanguageError::File {
            path: self.path.clone(),
            defect: error.to_string(),
        }
    }
}

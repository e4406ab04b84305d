//! The texts of a configuration: a file and its drop-ins in alphabetical order, of which later ones override keys of
//! earlier ones.
//!
//! All texts are laid end to end, so that one number is a place in any of them.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::check;
use super::checked::Config;
use super::document::{Document, Merge};
use super::error::{ConfigError, Fault};

/// The files of a configuration in the order of reading.
#[derive(Debug)]
pub(super) struct Files(Vec<Text>);

#[derive(Debug)]
struct Text {
    file: PathBuf,
    text: String,
}

impl Files {
    pub(super) fn of(file: &Path, text: &str) -> Self {
        Self(vec![Text {
            file: file.into(),
            text: text.into(),
        }])
    }

    pub(super) fn read(file: &Path) -> Result<Self, ConfigError> {
        let drop_ins = drop_ins(file)?;
        let mut texts = Vec::new();
        match fs::read_to_string(file) {
            Ok(text) => texts.push(Text {
                file: file.into(),
                text,
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !drop_ins.is_empty() => {}
            Err(source) => {
                let file = file.into();
                return Err(ConfigError::Unreadable { file, source });
            }
        }
        for file in drop_ins {
            match fs::read_to_string(&file) {
                Ok(text) => texts.push(Text { file, text }),
                Err(source) => return Err(ConfigError::DropIn { file, source }),
            }
        }
        Ok(Self(texts))
    }

    /// Checks the merged configuration. Relative paths of all files start in `directory`.
    pub(super) fn check(&self, directory: Option<&Path>) -> Result<Config, ConfigError> {
        self.document()
            .and_then(|document| check::config(&document, directory))
            .map_err(|fault| self.locate(fault))
    }

    fn document(&self) -> Result<Document, Fault> {
        let (mut whole, mut begin) = (Document::default(), 0);
        for Text { text, .. } in &self.0 {
            let document = Document::parse(text).map_err(|fault| fault.after(begin))?;
            whole.merge(document, begin);
            begin += length(text);
        }
        Ok(whole)
    }

    fn locate(&self, mut fault: Fault) -> ConfigError {
        let mut texts = self.0.iter().peekable();
        let mut last = ("", Path::new(""));
        while let Some(Text { file, text }) = texts.next() {
            last = (text, file);
            if fault.at < length(text) || texts.peek().is_none() {
                break;
            }
            fault.at -= length(text);
        }
        fault.locate(last.0, last.1)
    }
}

/// The length of a text in the joined texts. Its end, where a fault may be, counts as a place of its own.
fn length(text: &str) -> usize {
    text.len() + 1
}

/// Returns the drop-ins of `file` in alphabetical order: for `gangliond.toml`, the `*.toml` in `gangliond.toml.d`.
/// Hidden files, which editors create, are ignored.
pub fn drop_ins(file: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let mut directory = file.as_os_str().to_owned();
    directory.push(".d");
    let directory = PathBuf::from(directory);
    let failed = |source| ConfigError::DropIn {
        file: directory.clone(),
        source,
    };
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.map_err(failed)?.path();
        let hidden = file
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && file.extension().is_some_and(|end| end == "toml") {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

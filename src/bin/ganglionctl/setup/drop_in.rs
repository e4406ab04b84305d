//! The drop-in that `setup` and `use` own, next to the configuration file. It is replaced atomically.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use nix::sys::stat::{Mode, umask};

use super::choice::Choice;
use crate::failure::{Exit, OrFail as _, Outcome, bail, failure};

const NAME: &str = "50-setup.toml";

pub(super) struct DropIn {
    pub(super) file: PathBuf,
    /// The previous content, if it existed.
    before: Option<Vec<u8>>,
}

impl DropIn {
    /// Returns the drop-in of a configuration file.
    pub(super) fn of(configuration: &Path) -> Self {
        let mut folder = configuration.as_os_str().to_owned();
        folder.push(".d");
        let file = PathBuf::from(folder).join(NAME);
        let before = fs::read(&file).ok();
        Self { file, before }
    }

    /// Returns its content with another model, without comments.
    pub(super) fn with_model(&self, model: &Path) -> Outcome<String> {
        let before = String::from_utf8_lossy(self.before.as_deref().unwrap_or_default());
        let said = before.parse::<toml::Table>();
        let mut said = said.or_fail(Exit::Config, self.file.display())?;
        let section = said.entry("model").or_insert(toml::Table::new().into());
        let Some(section) = section.as_table_mut() else {
            bail!(Config: "{}: model must be a section", self.file.display());
        };
        section.insert("path".into(), model.display().to_string().into());
        let again = "that or `ganglionctl setup`";
        Ok(written("`ganglionctl use`", again, &said.to_string()))
    }

    pub(super) fn write(&self, text: &str) -> Outcome {
        self.put(Some(text.as_bytes()))
    }

    /// Restores the previous content.
    pub(super) fn restore(&self) -> Outcome {
        self.put(self.before.as_deref())
    }

    /// Replaces or removes the file.
    fn put(&self, text: Option<&[u8]>) -> Outcome {
        let put = match text {
            Some(text) => self.replace(text),
            None => fs::remove_file(&self.file),
        };
        let Err(error) = put else {
            return Ok(());
        };
        let failure = failure!(Failed: "{}: {error}", self.file.display());
        match error.kind() {
            io::ErrorKind::NotFound if text.is_none() => Ok(()),
            io::ErrorKind::PermissionDenied => Err(failure.and("run it with sudo")),
            _ => Err(failure),
        }
    }

    /// The service must be able to read it, whatever the user's umask.
    fn replace(&self, text: &[u8]) -> io::Result<()> {
        let part = self.file.with_extension("toml.part");
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        umask(Mode::from_bits_truncate(0o022));
        fs::create_dir_all(folder)?;
        let mut file = fs::File::create(&part)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&part, &self.file)
    }
}

/// Returns the content that `setup` writes.
pub(super) fn text(board: &str, model: &Path, choice: Choice) -> String {
    let (context, mib) = (choice.context, choice.memory_mib);
    let path = toml::Value::String(model.display().to_string());
    let said = format!("[model]\npath = {path}\n\n[kv]\ncontext = {context}\nmemory_mib = {mib}\n");
    written(&format!("`ganglionctl setup` for {board}"), "that", &said)
}

fn written(by: &str, again: &str, said: &str) -> String {
    format!(
        "# Written by {by}. It is written anew when {again} is run again;\n# your own settings belong in a file that comes \
         after it, such as 60-local.toml.\n{said}"
    )
}

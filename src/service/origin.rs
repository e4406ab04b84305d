//! The source of the configuration: the file and model that the command line names.

use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::source::{self, TokenSource};
use crate::config::{self, Config, ConfigError};
use crate::engine::sim::Script;
use crate::http::Keys;
use crate::journal;
use crate::load::{self, LoadError, OpenDraft, OpenModel};
use crate::tools::Formats;

/// The arguments that select the configuration.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The configuration file; `None` is the packaged one.
    pub file: Option<PathBuf>,
    /// A script that replaces the model.
    pub script: Option<Script>,
}

/// What the configuration and the files that it names say.
#[derive(Debug)]
pub struct Read {
    pub config: Config,
    pub source: TokenSource,
    /// The formats of tool calls.
    pub formats: Formats,
    /// The keys of callers over TCP.
    pub keys: Option<Keys>,
}

impl Origin {
    #[must_use]
    pub fn file(&self) -> &Path {
        let packaged = Path::new(config::DEFAULT_FILE);
        self.file.as_deref().unwrap_or(packaged)
    }

    /// Reads the configuration and the files that it names, except the model.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn read(&self) -> Result<Read, ConfigError> {
        match &self.script {
            // The scripted engine works without a file, but a file that exists must be valid.
            Some(script) if self.file.is_none() && !self.file().exists() => Ok(Read {
                config: Config::default(),
                source: TokenSource::Script(script.clone()),
                formats: Formats::default(),
                keys: None,
            }),
            _ => {
                let read = self.check()?;
                if read.config.kv.slots.is_some() {
                    journal::config_outdated("kv.slots", "kv.memory_mib");
                }
                Ok(read)
            }
        }
    }

    /// Reads like `read`, but the file must exist even with a script.
    pub fn check(&self) -> Result<Read, ConfigError> {
        let file = self.file();
        let config = Config::read(file)?;
        let source = match &self.script {
            Some(script) => TokenSource::Script(script.clone()),
            None => TokenSource::Model(config.model_path(file)?.to_owned()),
        };
        let formats = Formats::read(&config.model.tool_formats)?;
        let keys = config
            .http
            .key_file
            .as_deref()
            .map(Keys::read)
            .transpose()?;
        Ok(Read {
            config,
            source,
            formats,
            keys,
        })
    }

    /// Checks the configuration against the model's files, without reading the weights.
    ///
    /// # Errors
    /// What is wrong with the configuration, or with the model that it names.
    pub fn check_model(&self) -> Result<(), Failure> {
        let read = self.check()?;
        let (config, TokenSource::Model(model)) = (read.config, read.source) else {
            return Ok(());
        };
        let failed = |error: LoadError| {
            let file = self.file().display();
            match error {
                error @ (LoadError::Model(_) | LoadError::Language { .. }) => {
                    Failure::Model(format!("model.path in {file}: {error}"))
                }
                error => Failure::Model(format!("{file}: {error}")),
            }
        };
        let settings = source::settings(&model, &config).runner;
        let opened =
            OpenModel::read(&model, config.model.chat_template.as_deref()).map_err(failed)?;
        let draft = load::open_draft(&model, &opened.language, &settings).map_err(failed)?;
        load::open_tower(&model, &opened.checkpoint, &settings).map_err(failed)?;
        let assistant = draft.as_ref().and_then(OpenDraft::assistant);
        opened.check(assistant, &settings).map_err(failed)
    }
}

//! Where the configuration comes from: read at start, after the name is owned, and again by each reload.

use std::path::{Path, PathBuf};

use super::Failure;
use super::source::{self, Source};
use crate::config::{self, Config, ConfigError};
use crate::engine::sim::Script;
use crate::journal;
use crate::load::{LoadError, OpenModel};
use crate::tools::Formats;

/// What the arguments say.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// `None` is the packaged file.
    pub file: Option<PathBuf>,
    /// Runs in a model's place.
    pub script: Option<Script>,
}

impl Origin {
    #[must_use]
    pub fn file(&self) -> &Path {
        let packaged = Path::new(config::DEFAULT_FILE);
        self.file.as_deref().unwrap_or(packaged)
    }

    /// The configuration, what it says to serve, and the formats in which models call tools.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn read(&self) -> Result<(Config, Source, Formats), ConfigError> {
        match &self.script {
            // The scripted engine needs no file; one that is there counts.
            Some(script) if self.file.is_none() && !self.file().exists() => {
                let source = Source::Script(script.clone());
                Ok((Config::default(), source, Formats::default()))
            }
            _ => {
                let read = self.check()?;
                if read.0.kv.slots.is_some() {
                    journal::config_outdated("kv.slots", "kv.memory_mib");
                }
                Ok(read)
            }
        }
    }

    /// The same, but the file must be there and right.
    pub fn check(&self) -> Result<(Config, Source, Formats), ConfigError> {
        let file = self.file();
        let config = Config::read(file)?;
        let source = match &self.script {
            Some(script) => Source::Script(script.clone()),
            None => Source::Model(config.model_path(file)?.to_owned()),
        };
        let formats = Formats::read(&config.model.tool_formats)?;
        Ok((config, source, formats))
    }

    /// Checks the configuration and the model's files: all but the weights, and what the configuration asks of the model.
    ///
    /// # Errors
    /// What is wrong with the configuration, or with the model that it names.
    pub fn check_model(&self) -> Result<(), Failure> {
        let (config, Source::Model(model), _) = self.check()? else {
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
        opened.check(&settings).map_err(failed)
    }
}

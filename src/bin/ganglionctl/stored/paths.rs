//! The options that name the folder and the configuration file.

use std::path::PathBuf;

use ganglion::config;

use crate::models;

/// The folder and the configuration file.
#[derive(Debug, clap::Args)]
pub(crate) struct Paths {
    /// The folder of the models
    #[arg(long, value_name = "DIR", default_value = models::FOLDER)]
    pub(crate) dir: PathBuf,
    /// The daemon's configuration file
    #[arg(long, value_name = "FILE", default_value = config::DEFAULT_FILE)]
    pub(crate) config: PathBuf,
}

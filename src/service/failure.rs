//! Reasons for the daemon's end, with their exit statuses and last events.

use std::io;

use crate::bus::BusError;
use crate::config::ConfigError;
use crate::journal;

/// The reason for the daemon's end. Exit statuses are those of sysexits(3).
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The model could not be loaded; the text has the remedy.
    #[error("{0}")]
    Model(String),
    /// The model could not be loaded, but a later start may succeed.
    #[error("{0}")]
    Temporary(String),
    #[error("the engine's thread has ended; see the messages above")]
    Engine,
    /// A thread panicked. The panic was reported with its backtrace when it happened.
    #[error("a thread panicked; see the messages above")]
    Panic,
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error("the system refused what the daemon needs to start: {0}")]
    System(#[from] io::Error),
}

impl Failure {
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Bus(_) => 69,                     // EX_UNAVAILABLE
            Self::Engine | Self::Panic => 70,       // EX_SOFTWARE
            Self::System(_) => 71,                  // EX_OSERR
            Self::Temporary(_) => 75,               // EX_TEMPFAIL
            Self::Config(_) | Self::Model(_) => 78, // EX_CONFIG
        }
    }

    /// Reports the failure to the journal.
    pub fn report(&self) {
        let text = self.to_string();
        match self {
            Self::Config(_) => journal::config_error(&text),
            Self::Model(_) | Self::Temporary(_) => journal::load_failed(&text),
            Self::Engine => journal::engine_failed(&text),
            Self::Panic => {}
            Self::Bus(_) => journal::bus_unavailable(&text),
            Self::System(_) => journal::system_error(&text),
        }
    }
}

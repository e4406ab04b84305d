//! Why the daemon ended, as its exit status and as its last event.

use std::io;

use crate::bus::BusError;
use crate::config::ConfigError;
use crate::journal;

/// Exit statuses are those of sysexits(3): systemd and scripts can tell them apart.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The model could not be loaded; with the remedy.
    #[error("{0}")]
    Model(String),
    /// The same, where another start may find what was not there.
    #[error("{0}")]
    Early(String),
    #[error("its thread has ended; what it said is above")]
    Engine,
    /// It was told when it happened, with its backtrace.
    #[error("a thread panicked; what it said is above")]
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
            Self::Early(_) => 75,                   // EX_TEMPFAIL
            Self::Config(_) | Self::Model(_) => 78, // EX_CONFIG
        }
    }

    /// Tells the journal.
    pub fn report(&self) {
        let text = self.to_string();
        match self {
            Self::Config(_) => journal::config_error(&text),
            Self::Model(_) | Self::Early(_) => journal::load_failed(&text),
            Self::Engine => journal::engine_failed(&text),
            Self::Panic => {}
            Self::Bus(_) => journal::bus_unavailable(&text),
            Self::System(_) => journal::system_error(&text),
        }
    }
}

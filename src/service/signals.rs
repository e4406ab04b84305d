//! The signals that stop the daemon or reload its configuration.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens to SIGHUP, which then reloads the configuration instead of ending the process.
pub(super) fn hangups() -> io::Result<Signal> {
    signal(SignalKind::hangup())
}

/// SIGTERM from systemd, and SIGINT from a terminal.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Listens to both signals, which then do not end the process by themselves.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for one of them.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

//! Controls the service through systemctl.

use std::process::Command;

use nix::sys::signal::{SigSet, Signal};

use crate::doctor::unit::NAME;
use crate::failure::{Exit, OrFail as _, Outcome, ensure};
use crate::output;

/// A stopped service that D-Bus activation cannot start, because a client might call between stop and start.
///
/// When it is dropped, a service that ran before starts again. Signals that would end this program wait for that.
pub(super) struct Held {
    ran: bool,
    _blocked: BlockedSignals,
}

/// Blocks the signals that a terminal or a service sends to end this program, until it is dropped.
pub(super) struct BlockedSignals(SigSet);

impl BlockedSignals {
    pub(super) fn begin() -> Self {
        let signals = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
        let signals: SigSet = signals.into_iter().collect();
        let _ = signals.thread_block();
        Self(signals)
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        let _ = self.0.thread_unblock();
    }
}

impl Held {
    /// Stops the service.
    pub(super) fn stop(ran: bool) -> Outcome<Self> {
        let held = Self {
            ran,
            _blocked: BlockedSignals::begin(),
        };
        systemctl(&["--quiet", "--runtime", "--now", "mask", NAME])?;
        Ok(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let unmasked = systemctl(&["--quiet", "--runtime", "unmask", NAME]);
        let again = || after_reset(&["--no-block", "restart", NAME]);
        let queued = unmasked.and_then(|()| if self.ran { again() } else { Ok(()) });
        if let Err(failure) = queued {
            output::print_failure(&failure);
        }
    }
}

/// Starts the service with the present configuration, and waits until it is ready.
pub(super) fn restart() -> Outcome {
    after_reset(&["restart", NAME])
}

/// Runs systemctl after a reset of earlier failures.
fn after_reset(arguments: &[&str]) -> Outcome {
    // A service that never ran has no failure to reset.
    let _ = systemctl(&["--quiet", "reset-failed", NAME]);
    systemctl(arguments)
}

pub(super) fn systemctl(arguments: &[&str]) -> Outcome {
    let asked = format!("systemctl {}", arguments.join(" "));
    let status = Command::new("systemctl").args(arguments).status();
    let status = status.or_fail(Exit::Failed, &asked)?;
    ensure!(status.success(), Failed: "{asked}: {status}; sudo ganglionctl doctor says more");
    Ok(())
}

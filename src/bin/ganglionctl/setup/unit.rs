//! The service, by systemctl.

use std::process::Command;

use nix::sys::signal::{SigSet, Signal};

use crate::doctor::unit::NAME;
use crate::failure::{Exit, OrFail as _, Outcome, ensure};
use crate::output;

/// A service that no call starts: without this a client would, between the stop and the start.
///
/// Let go, it starts again if it ran before. What would end this program meanwhile waits for that.
pub(super) struct Held {
    ran: bool,
    _whole: Whole,
}

/// As long as it is there nothing ends this program that a terminal or a service sends: that waits, and then does.
pub(super) struct Whole(SigSet);

impl Whole {
    pub(super) fn begin() -> Self {
        let signals = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
        let signals: SigSet = signals.into_iter().collect();
        let _ = signals.thread_block();
        Self(signals)
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        let _ = self.0.thread_unblock();
    }
}

impl Held {
    /// Stops it.
    pub(super) fn still(ran: bool) -> Outcome<Self> {
        let held = Self {
            ran,
            _whole: Whole::begin(),
        };
        systemctl(&["--quiet", "--runtime", "--now", "mask", NAME])?;
        Ok(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let unmasked = systemctl(&["--quiet", "--runtime", "unmask", NAME]);
        let again = || anew(&["--no-block", "restart", NAME]);
        let queued = unmasked.and_then(|()| if self.ran { again() } else { Ok(()) });
        if let Err(failure) = queued {
            output::tell_failure(&failure);
        }
    }
}

/// Starts it with the configuration that is there now; returns when it is ready.
pub(super) fn restart() -> Outcome {
    anew(&["restart", NAME])
}

/// Does so however often the service failed before.
fn anew(arguments: &[&str]) -> Outcome {
    // Where it never ran there is no failure to forget.
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

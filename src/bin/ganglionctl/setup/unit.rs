//! The service, by systemctl.

use std::process::Command;

use nix::sys::signal::{SigSet, Signal};

use crate::failure::{Exit, Failure};
use crate::output;

const NAME: &str = "gangliond.service";

/// Whether it runs, or is about to.
pub(super) fn runs() -> bool {
    let shown = Command::new("systemctl")
        .args(["show", "--property=ActiveState", "--value", NAME])
        .output();
    shown.is_ok_and(|shown| {
        let state = String::from_utf8_lossy(&shown.stdout);
        !matches!(state.trim(), "" | "inactive" | "failed")
    })
}

/// A service that no call starts: without this a client would, between the stop and the start.
///
/// Let go, it starts again if it ran before. What would end this program meanwhile waits for that.
pub(super) struct Held {
    ran: bool,
    signals: SigSet,
}

impl Held {
    /// Stops it.
    ///
    /// # Errors
    /// What systemd says.
    pub(super) fn still(ran: bool) -> Result<Self, Failure> {
        let mut signals = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            signals.add(signal);
        }
        let _ = signals.thread_block();
        let held = Self { ran, signals };
        systemctl(&["--quiet", "--runtime", "--now", "mask", NAME])?;
        Ok(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let unmasked = systemctl(&["--quiet", "--runtime", "unmask", NAME]);
        let queued = unmasked.and_then(|()| {
            if self.ran {
                return anew(&["--no-block", "restart", NAME]);
            }
            Ok(())
        });
        if let Err(Failure { message, .. }) = queued {
            output::tell(&format!("ganglionctl: {}", message.unwrap_or_default()));
        }
        let _ = self.signals.thread_unblock();
    }
}

/// Waits until one that was held, and ran before, is ready.
///
/// # Errors
/// What systemd says.
pub(super) fn ready() -> Result<(), Failure> {
    systemctl(&["start", NAME])
}

/// Starts it with the configuration that is there now; returns when it is ready.
///
/// # Errors
/// What systemd says.
pub(super) fn restart() -> Result<(), Failure> {
    anew(&["restart", NAME])
}

/// However often it failed before.
fn anew(arguments: &[&str]) -> Result<(), Failure> {
    // It has none to forget where it never ran.
    let _ = systemctl(&["--quiet", "reset-failed", NAME]);
    systemctl(arguments)
}

/// At each start of the system.
///
/// # Errors
/// What systemd says.
pub(super) fn enable() -> Result<(), Failure> {
    systemctl(&["--quiet", "enable", NAME])
}

fn systemctl(arguments: &[&str]) -> Result<(), Failure> {
    let told = |why: String| {
        let asked = arguments.join(" ");
        Failure::new(
            Exit::Failed,
            format!("systemctl {asked}: {why}; sudo ganglionctl doctor says more"),
        )
    };
    match Command::new("systemctl").args(arguments).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(told(status.to_string())),
        Err(error) => Err(told(error.to_string())),
    }
}

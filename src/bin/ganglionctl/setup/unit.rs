//! The service, by systemctl.

use std::process::Command;

use nix::sys::signal::{SigSet, Signal};

use crate::failure::{Exit, Failure};

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
pub(super) struct Held {
    /// What ends this program waits until then.
    signals: SigSet,
}

impl Held {
    /// Stops it.
    ///
    /// # Errors
    /// What systemd says.
    pub(super) fn still() -> Result<Self, Failure> {
        let mut signals = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            signals.add(signal);
        }
        // Refused, an interrupted setup leaves the mask until the next start of the system.
        let _ = signals.thread_block();
        let held = Self { signals };
        systemctl(&["--quiet", "--runtime", "--now", "mask", NAME])?;
        Ok(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Err(Failure { message, .. }) = systemctl(&["--quiet", "--runtime", "unmask", NAME]) {
            eprintln!("ganglionctl: {}", message.unwrap_or_default());
        }
        let _ = self.signals.thread_unblock();
    }
}

/// Starts it with the configuration that is there now, however often it failed before; returns when it is ready.
///
/// # Errors
/// What systemd says.
pub(super) fn restart() -> Result<(), Failure> {
    // It has none to forget where it never ran.
    let _ = systemctl(&["--quiet", "reset-failed", NAME]);
    systemctl(&["restart", NAME])
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

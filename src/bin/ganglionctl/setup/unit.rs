//! The service, by systemctl.

use std::process::Command;

use nix::sys::signal::{SigSet, Signal, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};

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
    /// Whether it is to run again if this program is told to end meanwhile.
    ran: bool,
    /// What tells it to.
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
        // They wait until the mask is gone: it would stay until the next start of the system.
        let _ = signals.thread_block();
        let held = Self { ran, signals };
        systemctl(&["--quiet", "--runtime", "--now", "mask", NAME])?;
        Ok(held)
    }

    /// The signal that waits, if one does.
    fn waiting(&self) -> Option<Signal> {
        let file = SignalFd::with_flags(&self.signals, SfdFlags::SFD_NONBLOCK).ok()?;
        let signal = file.read_signal().ok()??;
        Signal::try_from(i32::try_from(signal.ssi_signo).ok()?).ok()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Err(Failure { message, .. }) = systemctl(&["--quiet", "--runtime", "unmask", NAME]) {
            eprintln!("ganglionctl: {}", message.unwrap_or_default());
        }
        let waiting = self.waiting();
        if waiting.is_some() && self.ran {
            let _ = systemctl(&["--no-block", "start", NAME]);
        }
        let _ = self.signals.thread_unblock();
        if let Some(signal) = waiting {
            let _ = raise(signal);
        }
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

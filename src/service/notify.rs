//! What systemd is told, where `NOTIFY_SOCKET` says that it listens.

use std::time::Duration;

use sd_notify::NotifyState;

/// A token can be made.
pub(super) fn ready() {
    send(&[NotifyState::Ready]);
}

/// One line for people, shown by `systemctl status`.
pub(super) fn status(text: &str) {
    // A line is where the protocol ends a value.
    send(&[NotifyState::Status(&text.replace('\n', " "))]);
}

/// What is under way may take so long from now, whatever the unit says.
pub(super) fn extend(by: Duration) {
    send(&[NotifyState::Custom(&timeout(by))]);
}

/// All is well; said less often than every `WATCHDOG_USEC`, systemd ends the process.
pub(super) fn well() {
    send(&[NotifyState::Watchdog]);
}

/// The daemon stops, and will have done so within `within`.
pub(super) fn stopping(within: Duration) {
    send(&[NotifyState::Stopping, NotifyState::Custom(&timeout(within))]);
}

fn timeout(of: Duration) -> String {
    format!("EXTEND_TIMEOUT_USEC={}", of.as_micros())
}

fn send(states: &[NotifyState<'_>]) {
    // Unheard, it is systemd that notices: a service that never becomes ready times out.
    let _ = sd_notify::notify(states);
}

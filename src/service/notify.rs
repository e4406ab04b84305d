//! Messages to systemd, if `NOTIFY_SOCKET` is set.

use std::time::Duration;

use sd_notify::NotifyState;

/// Reports that the model can produce tokens.
pub(super) fn ready() {
    send(&[NotifyState::Ready]);
}

/// Sets the line that `systemctl status` shows.
pub(super) fn status(text: &str) {
    // A line end would end the value.
    send(&[NotifyState::Status(&text.replace('\n', " "))]);
}

/// Extends the timeout of the current start, reload or stop to `by` from this moment.
pub(super) fn extend(by: Duration) {
    send(&[NotifyState::Custom(&timeout(by))]);
}

/// Feeds the watchdog. systemd ends the process if this does not happen within `WATCHDOG_USEC`.
pub(super) fn feed_watchdog() {
    send(&[NotifyState::Watchdog]);
}

/// Reports that the daemon will have stopped within `within`.
pub(super) fn stopping(within: Duration) {
    send(&[NotifyState::Stopping, NotifyState::Custom(&timeout(within))]);
}

fn timeout(of: Duration) -> String {
    format!("EXTEND_TIMEOUT_USEC={}", of.as_micros())
}

fn send(states: &[NotifyState<'_>]) {
    // If systemd does not receive it, the start times out.
    let _ = sd_notify::notify(states);
}

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

/// The daemon stops, and will have done so within `within`.
pub(super) fn stopping(within: Duration) {
    let within = u32::try_from(within.as_micros()).unwrap_or(u32::MAX);
    send(&[
        NotifyState::Stopping,
        NotifyState::ExtendTimeoutUsec(within),
    ]);
}

fn send(states: &[NotifyState<'_>]) {
    // Unheard, it is systemd that notices: a service that never becomes ready times out.
    let _ = sd_notify::notify(states);
}

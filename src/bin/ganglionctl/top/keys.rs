//! Keys as they are pressed, without Enter. The terminal is as it was before once this is dropped.

use std::io::{self, IsTerminal as _};

use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};
use tokio::io::AsyncReadExt as _;

/// Ctrl-D, where it ends no line.
const END: u8 = 4;

/// Nothing where nobody sits at a keyboard.
#[derive(Debug)]
pub(super) struct Keys(Option<Termios>);

impl Keys {
    /// Opens none if this runs but `once`, or where another program has the keyboard: taking it away would stop this one.
    pub(super) fn open(once: bool) -> Self {
        let stdin = io::stdin();
        let is_typed = !once && stdin.is_terminal() && io::stdout().is_terminal();
        let is_ours = is_typed && tcgetpgrp(&stdin).ok() == Some(getpgrp());
        let before = tcgetattr(&stdin).ok().filter(|_| is_ours);
        Self(before.filter(|before| {
            let mut raw = before.clone();
            // Ctrl-C stays a signal.
            raw.local_flags
                .remove(LocalFlags::ICANON | LocalFlags::ECHO);
            tcsetattr(&stdin, SetArg::TCSANOW, &raw).is_ok()
        }))
    }

    /// Returns once one is pressed that means: enough.
    pub(super) async fn quit(&self) {
        if self.0.is_some() {
            let mut keys = tokio::io::stdin();
            while let Ok(key) = keys.read_u8().await {
                if matches!(key, b'q' | b'Q' | END) {
                    return;
                }
            }
        }
        // Nobody is at the keyboard.
        std::future::pending::<()>().await;
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, before);
        }
    }
}

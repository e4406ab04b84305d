//! Single key presses without Enter. Dropping this restores the terminal.

use std::io::{self, IsTerminal as _};

use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};
use tokio::io::AsyncReadExt as _;

/// Ctrl-D, where it ends no line.
const END: u8 = 4;

/// The terminal's previous settings; `None` without a keyboard.
#[derive(Debug)]
pub(super) struct Keys(Option<Termios>);

impl Keys {
    /// Opens the keyboard, unless only one reading is printed or another program has the keyboard: taking it would stop
    /// this program.
    pub(super) fn open(once: bool) -> Self {
        let stdin = io::stdin();
        let is_typed = !once && stdin.is_terminal() && io::stdout().is_terminal();
        let is_ours = is_typed && tcgetpgrp(&stdin).ok() == Some(getpgrp());
        let before = tcgetattr(&stdin).ok().filter(|_| is_ours);
        Self(before.filter(|before| {
            let mut raw = before.clone();
            // Ctrl-C remains a signal.
            raw.local_flags
                .remove(LocalFlags::ICANON | LocalFlags::ECHO);
            tcsetattr(&stdin, SetArg::TCSANOW, &raw).is_ok()
        }))
    }

    /// Waits for a key that ends the program.
    pub(super) async fn quit(&self) {
        if self.0.is_some() {
            let mut keys = tokio::io::stdin();
            while let Ok(key) = keys.read_u8().await {
                if matches!(key, b'q' | b'Q' | END) {
                    return;
                }
            }
        }
        // Without a keyboard, no key arrives.
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

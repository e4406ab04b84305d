//! Keys as they are pressed, without Enter. The terminal is as it was before once this is dropped.

use std::io::{self, IsTerminal as _, Read as _};
use std::thread;

use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Ctrl-D, where it ends no line.
const END: u8 = 4;

#[derive(Debug)]
pub(super) struct Keys {
    before: Termios,
    pressed: UnboundedReceiver<u8>,
}

impl Keys {
    /// Nothing where nobody sits at a keyboard, or where another program has it: taking it away would stop this one.
    pub(super) fn open() -> Option<Self> {
        let stdin = io::stdin();
        let is_ours = || tcgetpgrp(&stdin).ok() == Some(getpgrp());
        if !stdin.is_terminal() || !io::stdout().is_terminal() || !is_ours() {
            return None;
        }
        let before = tcgetattr(&stdin).ok()?;
        let mut raw = before.clone();
        // Ctrl-C stays a signal.
        raw.local_flags
            .remove(LocalFlags::ICANON | LocalFlags::ECHO);
        tcsetattr(&stdin, SetArg::TCSANOW, &raw).ok()?;
        let (press, pressed) = unbounded_channel();
        thread::spawn(move || {
            let mut key = [0];
            while io::stdin().lock().read_exact(&mut key).is_ok() && press.send(key[0]).is_ok() {}
        });
        Some(Self { before, pressed })
    }

    /// Returns once one is pressed that means: enough.
    pub(super) async fn quit(&mut self) {
        while let Some(key) = self.pressed.recv().await {
            if matches!(key, b'q' | b'Q' | END) {
                return;
            }
        }
        // Nobody is at the keyboard any more.
        std::future::pending::<()>().await;
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.before);
    }
}

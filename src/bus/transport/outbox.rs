//! What waits to be written to the bus: whose turn it is goes first, so that nobody's answer waits for more than one of
//! each other user.
//!
//! Nothing here bounds what one connection is sent: its account does. What is sent to everyone goes behind all that was
//! sent before, so that no client reads an old value after a change was told.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use zbus::Message;

use super::turns::{Turns, Whose};
use crate::bus::accounts::{Accounts, Load};

/// Bytes that may wait before who sends more waits itself. The accounts let answers come to half of it: more is sent
/// only while the bus takes nothing.
const MOST: usize = 32 << 20;

/// Whom a message is for.
#[derive(Clone, Debug)]
pub(super) enum To {
    Bus,
    Everyone,
    /// It is put to the account of that connection.
    One(Arc<str>),
}

#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) message: Message,
    pub(super) to: To,
}

impl Outgoing {
    pub(super) fn load(&self) -> Load {
        load(&self.message)
    }
}

pub(super) fn load(message: &Message) -> Load {
    Load {
        bytes: message.data().len(),
        descriptors: message.data().fds().len(),
    }
}

#[derive(Debug, Default)]
struct State {
    turns: Turns<Outgoing>,
    bytes: usize,
    /// One is being written.
    writing: bool,
    /// Nothing more is sent.
    closed: bool,
    /// Nothing more is written.
    lost: bool,
}

/// What leaves by one connection to the bus.
#[derive(Debug)]
pub(in crate::bus) struct Outbox {
    state: Mutex<State>,
    /// There is something to write, or nothing more will come.
    sent: Notify,
    /// Something was written.
    written: Notify,
    accounts: Arc<Accounts>,
}

impl Outbox {
    pub(super) fn new(accounts: Arc<Accounts>) -> Self {
        Self {
            state: Mutex::default(),
            sent: Notify::new(),
            written: Notify::new(),
            accounts,
        }
    }

    /// Takes a message to write; `false` if none is written any more.
    pub(super) async fn send(&self, outgoing: Outgoing) -> bool {
        while !self.has_room() {
            let written = self.written.notified();
            tokio::pin!(written);
            // From here on it is noticed.
            written.as_mut().enable();
            if !self.has_room() {
                written.await;
            }
        }
        let mut state = self.state.lock();
        if state.lost || state.closed {
            return false;
        }
        state.bytes += outgoing.load().bytes;
        match outgoing.to.clone() {
            To::Everyone => state.turns.push_behind(outgoing),
            To::Bus => state.turns.push(Whose::Bus, "", outgoing),
            To::One(name) => {
                let user = self.accounts.user(&name);
                let whose = user.map_or(Whose::Unknown, Whose::User);
                state.turns.push(whose, &name, outgoing);
            }
        }
        drop(state);
        self.sent.notify_one();
        true
    }

    /// There is room also where nothing is written any more: whoever sends hears of it.
    fn has_room(&self) -> bool {
        let state = self.state.lock();
        state.bytes <= MOST || state.lost || state.closed
    }

    /// The next to write; `None` when all is written and nothing more will come.
    pub(super) async fn next(&self) -> Option<Outgoing> {
        loop {
            let sent = self.sent.notified();
            match self.take() {
                Some(outgoing) => return Some(outgoing),
                None if self.state.lock().closed => return None,
                None => sent.await,
            }
        }
    }

    fn take(&self) -> Option<Outgoing> {
        let mut state = self.state.lock();
        let outgoing = state.turns.pop(|_, _| true)?;
        state.writing = true;
        Some(outgoing)
    }

    /// What was next has been written.
    pub(super) fn wrote(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.bytes -= bytes;
        state.writing = false;
        drop(state);
        self.written.notify_waiters();
    }

    /// Nothing more is sent; what was, is written.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.sent.notify_one();
        self.written.notify_waiters();
    }

    /// The bus is lost.
    pub(super) fn lose(&self) {
        self.state.lock().lost = true;
        self.written.notify_waiters();
    }

    /// Returns when all that was sent is written, or cannot be any more.
    pub(in crate::bus) async fn flushed(&self) {
        loop {
            let written = self.written.notified();
            tokio::pin!(written);
            written.as_mut().enable();
            {
                let state = self.state.lock();
                if state.lost || (state.turns.is_empty() && !state.writing) {
                    return;
                }
            }
            written.await;
        }
    }
}

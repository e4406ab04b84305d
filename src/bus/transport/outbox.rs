//! Messages to write to the bus, in fair order: an answer waits for one message of each other user at most.
//!
//! The accounts bound the messages to one connection. A broadcast goes behind all earlier messages, so that no client reads
//! an old value after the signal of a change.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use zbus::Message;

use super::fair_queue::{FairQueue, Party};
use crate::bus::accounts::{Accounts, Load};

/// Queued bytes above which senders wait. The accounts allow answers half of it; more is queued only while the bus reads
/// nothing.
const MOST: usize = 32 << 20;

/// The receiver of a message.
#[derive(Clone, Debug)]
pub(super) enum To {
    Bus,
    Everyone,
    /// A client, whose account counts it.
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
    queue: FairQueue<Outgoing>,
    bytes: usize,
    /// Whether a message is being written.
    writing: bool,
    /// Whether nothing more is sent.
    closed: bool,
    /// Whether nothing more can be written.
    lost: bool,
}

/// The messages to one connection to the bus.
#[derive(Debug)]
pub(in crate::bus) struct Outbox {
    state: Mutex<State>,
    /// Notified when there is a message to write, or the outbox is closed.
    sent: Notify,
    /// Notified when a message was written.
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

    /// Queues a message; `false` if it cannot be written any more.
    pub(super) async fn send(&self, outgoing: Outgoing) -> bool {
        while !self.has_room() {
            let written = self.written.notified();
            tokio::pin!(written);
            // The wait is registered before the look, so that no notification is missed.
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
            To::Everyone => state.queue.push_barrier(outgoing),
            To::Bus => state.queue.push(Party::Bus, "", outgoing),
            To::One(name) => {
                let user = self.accounts.user(&name);
                let party = user.map_or(Party::Unknown, Party::User);
                state.queue.push(party, &name, outgoing);
            }
        }
        drop(state);
        self.sent.notify_one();
        true
    }

    /// Whether `send` need not wait. It does not wait where nothing can be written any more, and returns `false`.
    fn has_room(&self) -> bool {
        let state = self.state.lock();
        state.bytes <= MOST || state.lost || state.closed
    }

    /// Returns the next message to write; `None` when all is written and the outbox is closed.
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
        let outgoing = state.queue.pop(|_, _| true)?;
        state.writing = true;
        Some(outgoing)
    }

    /// Ends the writing of the message that `next` returned.
    pub(super) fn wrote(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.bytes -= bytes;
        state.writing = false;
        drop(state);
        self.written.notify_waiters();
    }

    /// Closes the outbox. Queued messages are still written.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.sent.notify_one();
        self.written.notify_waiters();
    }

    /// Ends the outbox, because the bus is lost.
    pub(super) fn lose(&self) {
        self.state.lock().lost = true;
        self.written.notify_waiters();
    }

    /// Returns when all messages are written, or cannot be any more.
    pub(in crate::bus) async fn flushed(&self) {
        loop {
            let written = self.written.notified();
            tokio::pin!(written);
            written.as_mut().enable();
            {
                let state = self.state.lock();
                if state.lost || (state.queue.is_empty() && !state.writing) {
                    return;
                }
            }
            written.await;
        }
    }
}

//! The writing half of the socket: it counts each message in the account of its receiver, and writes it in its turn.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use nix::sys::socket::{ControlMessage, MsgFlags, Shutdown, sendmsg, shutdown};
use tokio::io::Interest;
use tokio::net::unix::OwnedWriteHalf;
use tokio::task::JoinSet;
use zbus::Message;
use zbus::connection::socket::WriteHalf;
use zbus::export::async_trait::async_trait;
use zbus::message::Type;
use zbus::names::BusName;

use super::inbox::Inbox;
use super::outbox::{Outbox, Outgoing, To, load};
use crate::bus::accounts::{Accounts, BUS, ReturnedAnswer};

/// Dropping it writes the queued messages, and then closes the socket.
#[derive(Debug)]
pub(in crate::bus) struct Writer {
    stream: Arc<OwnedWriteHalf>,
    accounts: Arc<Accounts>,
    inbox: Arc<Inbox>,
    outbox: Arc<Outbox>,
    /// The task that writes; it starts with the first message.
    writing: JoinSet<()>,
}

impl Writer {
    pub(super) fn new(
        stream: OwnedWriteHalf,
        accounts: Arc<Accounts>,
        inbox: Arc<Inbox>,
        outbox: Arc<Outbox>,
    ) -> Self {
        Self {
            stream: Arc::new(stream),
            accounts,
            inbox,
            outbox,
            writing: JoinSet::new(),
        }
    }

    /// Counts a message, and returns its receiver; `None` if it is an answer that its caller does not expect.
    fn account(&self, message: &Message) -> Option<To> {
        let header = message.header();
        let to = match header.destination() {
            None => return Some(To::Everyone),
            // The name of the bus counts as a unique one. The daemon calls itself by the name that it owns.
            Some(BusName::Unique(to)) if *to != BUS => to,
            Some(_) => return Some(To::Bus),
        };
        let wanted = if let Some(serial) = header.reply_serial() {
            if load(message).descriptors > 0 {
                let call = ReturnedAnswer {
                    caller: to.to_string(),
                    serial: serial.get(),
                };
                let own = header.primary().serial_num().get();
                self.accounts.remember_answer(own, call);
            }
            if message.message_type() == Type::Error {
                self.accounts.failed(to, serial.get());
            }
            let wanted = self.accounts.answer(to, serial.get(), load(message));
            self.inbox.settle(to, serial.get());
            wanted
        } else {
            self.accounts.send(to, load(message));
            true
        };
        wanted.then(|| To::One(to.as_str().into()))
    }
}

#[async_trait]
impl WriteHalf for Writer {
    /// Returns when the message is queued.
    async fn send_message(&mut self, message: &Message) -> zbus::Result<()> {
        let Some(to) = self.account(message) else {
            return Ok(());
        };
        if self.writing.is_empty() {
            let (stream, outbox) = (self.stream.clone(), self.outbox.clone());
            self.writing
                .spawn(write(stream, outbox, self.accounts.clone()));
        }
        let outgoing = Outgoing {
            message: message.clone(),
            to,
        };
        if self.outbox.send(outgoing).await {
            Ok(())
        } else {
            let lost = io::Error::from(io::ErrorKind::BrokenPipe);
            Err(zbus::Error::InputOutput(lost.into()))
        }
    }

    /// Writes bytes of the handshake.
    async fn sendmsg(&mut self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
        send(&self.stream, bytes, descriptors).await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.outbox.close();
        while self.writing.join_next().await.is_some() {}
        Ok(shutdown(
            self.stream.as_ref().as_ref().as_raw_fd(),
            Shutdown::Write,
        )?)
    }

    fn can_pass_unix_fd(&self) -> bool {
        true
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.outbox.close();
        self.writing.detach_all();
    }
}

/// Writes the messages of the outbox, until it is closed and empty.
async fn write(stream: Arc<OwnedWriteHalf>, outbox: Arc<Outbox>, accounts: Arc<Accounts>) {
    while let Some(outgoing) = outbox.next().await {
        let load = outgoing.load();
        // The bus would drop messages to a connection that has left.
        let name = match &outgoing.to {
            To::One(name) => Some(name),
            To::Bus | To::Everyone => None,
        };
        let here = name.is_none_or(|name| accounts.is_here(name));
        let written = if here {
            write_whole(&stream, &outgoing.message).await
        } else {
            Ok(())
        };
        if let Some(name) = name {
            accounts.wrote(name, load);
        }
        outbox.wrote(load.bytes);
        if written.is_err() {
            // The reading half gets the reason.
            return outbox.lose();
        }
    }
}

async fn write_whole(stream: &OwnedWriteHalf, message: &Message) -> io::Result<()> {
    let data = message.data();
    let mut written = 0;
    while written < data.len() {
        let descriptors: Vec<_> = match written {
            0 => data.fds().iter().map(AsFd::as_fd).collect(),
            _ => Vec::new(),
        };
        written += send(stream, &data[written..], &descriptors).await?;
    }
    Ok(())
}

async fn send(
    stream: &OwnedWriteHalf,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    let raw: Vec<_> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let passed = [ControlMessage::ScmRights(&raw)];
    let passed = if raw.is_empty() { &[] } else { &passed[..] };
    let stream = stream.as_ref();
    stream
        .async_io(Interest::WRITABLE, || {
            let parts = [IoSlice::new(bytes)];
            // A closed peer is an error, not a signal.
            let flags = MsgFlags::MSG_NOSIGNAL;
            Ok(sendmsg::<()>(
                stream.as_raw_fd(),
                &parts,
                passed,
                flags,
                None,
            )?)
        })
        .await
}

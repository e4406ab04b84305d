//! The half that writes: each message that a connection is sent is put to its account.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::unix::OwnedWriteHalf;
use zbus::Message;
use zbus::connection::socket::WriteHalf;
use zbus::export::async_trait::async_trait;
use zbus::names::BusName;

use crate::bus::accounts::{Accounts, Load, Undelivered};

#[derive(Debug)]
pub(in crate::bus) struct Writer {
    stream: OwnedWriteHalf,
    accounts: Arc<Accounts>,
}

impl Writer {
    pub(super) fn new(stream: OwnedWriteHalf, accounts: Arc<Accounts>) -> Self {
        Self { stream, accounts }
    }

    /// Whether the message is to be written: an answer that nobody expects is not.
    fn account(&self, message: &Message) -> bool {
        let header = message.header();
        let Some(BusName::Unique(to)) = header.destination() else {
            return true;
        };
        let load = Load {
            bytes: message.data().len(),
            descriptors: message.data().fds().len(),
        };
        if let Some(serial) = header.reply_serial() {
            if load.descriptors > 0 {
                let call = Undelivered {
                    caller: to.to_string(),
                    serial: serial.get(),
                };
                let own = header.primary().serial_num().get();
                self.accounts.pass(own, call);
            }
            return self.accounts.answer(to, serial.get(), load);
        }
        self.accounts.send(to, load);
        true
    }
}

#[async_trait]
impl WriteHalf for Writer {
    async fn send_message(&mut self, message: &Message) -> zbus::Result<()> {
        // Before it is written: a writer that waits must not take more to write.
        if !self.account(message) {
            return Ok(());
        }
        let data = message.data();
        let mut written = 0;
        while written < data.len() {
            let descriptors: Vec<_> = match written {
                0 => data.fds().iter().map(std::os::fd::AsFd::as_fd).collect(),
                _ => Vec::new(),
            };
            written += self.sendmsg(&data[written..], &descriptors).await?;
        }
        Ok(())
    }

    async fn sendmsg(&mut self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
        let raw: Vec<_> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        let passed = [ControlMessage::ScmRights(&raw)];
        let passed = if raw.is_empty() { &[] } else { &passed[..] };
        let stream = self.stream.as_ref();
        stream
            .async_io(Interest::WRITABLE, || {
                let parts = [IoSlice::new(bytes)];
                // A peer that has gone is an error, not a signal.
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

    async fn close(&mut self) -> io::Result<()> {
        self.stream.shutdown().await
    }

    fn can_pass_unix_fd(&self) -> bool {
        true
    }
}

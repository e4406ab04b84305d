//! The half that reads: it hands zbus what was sifted, whose turn it is first.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::task::JoinSet;
use zbus::Message;
use zbus::connection::socket::ReadHalf;
use zbus::export::async_trait::async_trait;

use super::Gate;
use super::inbox::{Inbox, Incoming};
use super::sift::{Sifter, parse};
use crate::bus::accounts::Accounts;

#[derive(Debug)]
pub(in crate::bus) struct Reader {
    /// It is there until the handshake is over.
    sifter: Option<Sifter>,
    accounts: Arc<Accounts>,
    inbox: Arc<Inbox>,
    gate: Arc<dyn Gate>,
    /// Ends with the reader.
    sifting: JoinSet<()>,
}

impl Reader {
    pub(super) fn new(sifter: Sifter, gate: Arc<dyn Gate>) -> Self {
        Self {
            accounts: sifter.accounts.clone(),
            inbox: sifter.inbox.clone(),
            sifter: Some(sifter),
            gate,
            sifting: JoinSet::new(),
        }
    }
}

#[async_trait]
impl ReadHalf for Reader {
    async fn receive_message(
        &mut self,
        seq: u64,
        early: &mut Vec<u8>,
        _: &mut Vec<OwnedFd>,
    ) -> zbus::Result<Message> {
        if let Some(mut sifter) = self.sifter.take() {
            sifter.source.put_back(early);
            self.sifting.spawn(sifter.run());
        }
        loop {
            match self.inbox.next().await? {
                Incoming::Call(call) if !self.gate.passes(&call.message) => {}
                Incoming::Call(call) => return Ok(call.message),
                Incoming::Told(bytes) => match parse(bytes, seq).await {
                    Some(message) => return Ok(message),
                    None => self.accounts.count_unreadable(),
                },
            }
        }
    }

    /// The handshake reads by it.
    async fn recvmsg(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        let Some(sifter) = &mut self.sifter else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        sifter.source.recvmsg(buffer).await
    }

    fn can_pass_unix_fd(&self) -> bool {
        true
    }
}

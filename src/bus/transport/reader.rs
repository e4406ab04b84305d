//! The reading half of the socket: it hands the messages of the inbox to zbus.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::task::JoinSet;
use zbus::Message;
use zbus::connection::socket::ReadHalf;
use zbus::export::async_trait::async_trait;

use super::call_filter::CallFilter;
use super::inbox::{Inbox, Incoming};
use super::intake::{Intake, parse};
use crate::bus::accounts::Accounts;

#[derive(Debug)]
pub(in crate::bus) struct Reader {
    /// Present until the handshake is over.
    intake: Option<Intake>,
    accounts: Arc<Accounts>,
    inbox: Arc<Inbox>,
    filter: Arc<dyn CallFilter>,
    /// The task of the intake; it ends with the reader.
    task: JoinSet<()>,
}

impl Reader {
    pub(super) fn new(intake: Intake, filter: Arc<dyn CallFilter>) -> Self {
        Self {
            accounts: intake.accounts.clone(),
            inbox: intake.inbox.clone(),
            intake: Some(intake),
            filter,
            task: JoinSet::new(),
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
        if let Some(mut intake) = self.intake.take() {
            intake.source.put_back(early);
            self.task.spawn(intake.run());
        }
        loop {
            match self.inbox.next().await? {
                Incoming::Call(call) if !self.filter.passes(&call.message) => {}
                Incoming::Call(call) => return Ok(call.message),
                Incoming::OfBus(bytes) => match parse(bytes, seq).await {
                    Some(message) => return Ok(message),
                    None => self.accounts.count_unparsable(),
                },
            }
        }
    }

    /// Reads bytes for the handshake.
    async fn recvmsg(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        let Some(intake) = &mut self.intake else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        intake.source.recvmsg(buffer).await
    }

    fn can_pass_unix_fd(&self) -> bool {
        true
    }
}

//! Reads messages from the bus, and checks each by its header before its body is kept.
//!
//! A message that cannot be parsed is dropped and counted. A call that is too long, or exceeds a limit, is refused, and its
//! body is skipped. Unexpected answers and signals are dropped. Descriptors are kept for calls alone. The intake waits only
//! for the bus, so that no call is stuck behind others in the socket.

use std::sync::Arc;

use std::io;
use std::os::fd::OwnedFd;
use tokio::sync::mpsc;
use zbus::Message;
use zbus::connection::socket::ReadHalf;
use zbus::export::async_trait::async_trait;

use super::call_filter::{CallFilter, Refused};
use super::header::{FIXED, Fixed, Header, LONGEST_FIELDS};
use super::inbox::{Inbox, Incoming, IncomingCall};
use super::source::ByteSource;
use crate::bus::accounts::{Accounts, Admission, BUS, Call};

#[derive(Debug)]
pub(super) struct Intake {
    pub(super) source: ByteSource,
    pub(super) accounts: Arc<Accounts>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) refusals: mpsc::Sender<Refused>,
    pub(super) filter: Arc<dyn CallFilter>,
}

impl Intake {
    /// Reads until the bus is lost.
    pub(super) async fn run(mut self) {
        loop {
            match self.next().await {
                Ok(Some(incoming)) => self.inbox.push(incoming),
                Ok(None) => {}
                Err(error) => return self.inbox.end(error),
            }
        }
    }

    /// Reads one message; `None` if it was dropped or refused.
    async fn next(&mut self) -> zbus::Result<Option<Incoming>> {
        self.source.forget_descriptors();
        let mut fixed = [0; FIXED];
        self.source.read(&mut fixed).await?;
        let fixed = Fixed::read(fixed).map_err(|error| zbus::Error::Failure(error.to_string()))?;
        if fixed.fields() > LONGEST_FIELDS {
            return self.skip_unparsable(fixed.fields() + fixed.body()).await;
        }
        let mut fields = vec![0; fixed.fields()];
        self.source.read(&mut fields).await?;
        let Some(mut header) = Header::read(fixed, &fields) else {
            return self.skip_unparsable(fixed.body()).await;
        };
        if fixed.is_call() {
            header.complete(|path, member| self.filter.interface(path, member));
        }
        // The bus names the sender of every message that it delivers.
        let Some(sender) = header.sender() else {
            return self.skip_unparsable(fixed.body()).await;
        };
        if !fixed.is_call() {
            // The daemon subscribes to signals of the bus alone, and calls only the bus and itself.
            if sender != BUS && !self.accounts.is_own(sender) {
                self.source.skip(fixed.body()).await?;
                return Ok(None);
            }
            let bytes = self.whole(&header, fixed.body()).await?;
            return Ok(bytes.map(Incoming::OfBus));
        }
        let call = Call {
            serial: fixed.serial(),
            bytes: FIXED + fields.len() + fixed.body(),
            descriptors: header.descriptors(),
            answered: fixed.expects_reply(),
            lists_objects: header.member() == Some("Introspect"),
        };
        let mut admission = self.accounts.begin(sender, call);
        let descriptors = self.source.descriptors(fixed.body());
        let is_whole = !descriptors.lost && descriptors.files.len() == call.descriptors;
        if admission == Admission::Admitted && !is_whole {
            admission = Admission::Refused(
                "the daemon has too many open files to take the descriptors of this call; try again later".to_owned(),
            );
        }
        match admission {
            Admission::Admitted => {
                let message = match header.write_with_descriptors() {
                    Some(head) => {
                        let files = descriptors.files;
                        self.source.message(head, fixed.body(), files).await?
                    }
                    None => self.source.skip(fixed.body()).await.map(|()| None)?,
                };
                let Some(message) = message else {
                    self.accounts.count_unparsable();
                    self.accounts.abandon(sender, call.serial);
                    return Ok(None);
                };
                Ok(Some(Incoming::Call(IncomingCall {
                    name: sender.into(),
                    serial: call.serial,
                    message,
                })))
            }
            Admission::Dropped => {
                self.source.skip(fixed.body()).await?;
                Ok(None)
            }
            Admission::Refused(why) => {
                self.source.skip(fixed.body()).await?;
                let bare = parse(header.write_bare().unwrap_or_default(), 0).await;
                let refused = bare.map(|call| self.refusals.try_send(Refused { call, why }));
                if !matches!(refused, Some(Ok(()))) {
                    self.accounts.abandon(sender, call.serial);
                }
                Ok(None)
            }
        }
    }

    /// Reads the body of a message of the bus; returns the whole message.
    async fn whole(&mut self, header: &Header, body: usize) -> zbus::Result<Option<Vec<u8>>> {
        let Some(mut bytes) = header.write() else {
            self.source.skip(body).await?;
            self.accounts.count_unparsable();
            return Ok(None);
        };
        let start = bytes.len();
        bytes.resize(start + body, 0);
        self.source.read(&mut bytes[start..]).await?;
        Ok(Some(bytes))
    }

    async fn skip_unparsable(&mut self, rest: usize) -> zbus::Result<Option<Incoming>> {
        self.source.skip(rest).await?;
        self.accounts.count_unparsable();
        Ok(None)
    }
}

/// Parses a whole message, as zbus does.
pub(super) async fn parse(mut bytes: Vec<u8>, seq: u64) -> Option<Message> {
    let mut whole = Whole;
    whole
        .receive_message(seq, &mut bytes, &mut Vec::new())
        .await
        .ok()
}

/// A source without further bytes: zbus parses the bytes that it already has.
#[derive(Debug)]
struct Whole;

#[async_trait]
impl ReadHalf for Whole {
    async fn recvmsg(&mut self, _: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        Ok((0, Vec::new()))
    }
}

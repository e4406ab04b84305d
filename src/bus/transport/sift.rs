//! What comes from the bus, sifted: each message is looked at by its header before its body is kept.
//!
//! A message that cannot be parsed is dropped and counted. A call that is too long, or one too many, is refused, and its
//! body is read past. What nobody here can have asked for is dropped. Descriptors are not received at all. Nothing is
//! waited for but the bus: what it has sent is read at once, so that nobody's call lies behind others' in its socket.

use std::sync::Arc;

use std::io;
use std::os::fd::OwnedFd;
use tokio::sync::mpsc;
use zbus::Message;
use zbus::connection::socket::ReadHalf;
use zbus::export::async_trait::async_trait;

use super::header::{FIXED, Fixed, Header, LONGEST_FIELDS};
use super::inbox::{Inbox, Incoming, IncomingCall};
use super::source::Source;
use super::{Gate, Refused};
use crate::bus::accounts::{Accounts, Admission, BUS, Call};

#[derive(Debug)]
pub(super) struct Sifter {
    pub(super) source: Source,
    pub(super) accounts: Arc<Accounts>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) refusals: mpsc::Sender<Refused>,
    pub(super) gate: Arc<dyn Gate>,
}

impl Sifter {
    /// Reads until the bus is lost.
    pub(super) async fn run(mut self) {
        loop {
            match self.sift().await {
                Ok(Some(incoming)) => self.inbox.push(incoming),
                Ok(None) => {}
                Err(error) => return self.inbox.end(error),
            }
        }
    }

    /// Reads one message; `None` if it goes no further.
    async fn sift(&mut self) -> zbus::Result<Option<Incoming>> {
        let mut fixed = [0; FIXED];
        self.source.read(&mut fixed).await?;
        let fixed = Fixed::read(fixed).map_err(|error| zbus::Error::Failure(error.to_string()))?;
        if fixed.fields() > LONGEST_FIELDS {
            return self.unreadable(fixed.fields() + fixed.body()).await;
        }
        let mut fields = vec![0; fixed.fields()];
        self.source.read(&mut fields).await?;
        let Some(mut header) = Header::read(fixed, &fields) else {
            return self.unreadable(fixed.body()).await;
        };
        if fixed.is_call() {
            header.complete(|path, member| self.gate.interface(path, member));
        }
        // The bus itself names a sender in all that it lets through.
        let Some(sender) = header.sender() else {
            return self.unreadable(fixed.body()).await;
        };
        if !fixed.is_call() {
            // Signals come from the bus alone, and answers from whom the daemon asks: the bus and itself.
            if sender != BUS && !self.accounts.is_own(sender) {
                self.source.skip(fixed.body()).await?;
                return Ok(None);
            }
            let bytes = self.whole(&header, fixed.body()).await?;
            return Ok(bytes.map(Incoming::Told));
        }
        let call = Call {
            serial: fixed.serial(),
            bytes: FIXED + fields.len() + fixed.body(),
            answered: fixed.expects_reply(),
            of_objects: header.member() == Some("Introspect"),
        };
        match self.accounts.begin(sender, call) {
            Admission::Taken => {
                let message = match header.write() {
                    Some(head) => self.source.message(head, fixed.body()).await?,
                    None => self.source.skip(fixed.body()).await.map(|()| None)?,
                };
                let Some(message) = message else {
                    self.accounts.count_unreadable();
                    self.accounts.forgo(sender, call.serial);
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
                    self.accounts.forgo(sender, call.serial);
                }
                Ok(None)
            }
        }
    }

    /// Reads the body of what the bus says; the whole message.
    async fn whole(&mut self, header: &Header, body: usize) -> zbus::Result<Option<Vec<u8>>> {
        let Some(mut bytes) = header.write() else {
            self.source.skip(body).await?;
            self.accounts.count_unreadable();
            return Ok(None);
        };
        let start = bytes.len();
        bytes.resize(start + body, 0);
        self.source.read(&mut bytes[start..]).await?;
        Ok(Some(bytes))
    }

    async fn unreadable(&mut self, rest: usize) -> zbus::Result<Option<Incoming>> {
        self.source.skip(rest).await?;
        self.accounts.count_unreadable();
        Ok(None)
    }
}

/// zbus's own reading of a whole message.
pub(super) async fn parse(mut bytes: Vec<u8>, seq: u64) -> Option<Message> {
    let mut whole = Whole;
    whole
        .receive_message(seq, &mut bytes, &mut Vec::new())
        .await
        .ok()
}

/// A source that has nothing but what it was given to begin with.
#[derive(Debug)]
struct Whole;

#[async_trait]
impl ReadHalf for Whole {
    async fn recvmsg(&mut self, _: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        Ok((0, Vec::new()))
    }
}

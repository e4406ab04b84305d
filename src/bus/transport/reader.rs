//! The half that reads: each message is looked at by its header before its body is kept.
//!
//! A message that cannot be parsed is dropped and counted. A call that is too long, or one too many, is refused, and its
//! body is read past. What nobody here can have asked for is dropped. Descriptors are not received at all.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, BufReader, sink};
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::mpsc;
use zbus::Message;
use zbus::connection::socket::ReadHalf;
use zbus::export::async_trait::async_trait;

use super::Refused;
use super::header::{FIXED, Fixed, Header, LONGEST_FIELDS};
use crate::bus::accounts::{Accounts, Admission, BUS, Call};

/// Bytes that one read takes, of many small messages.
const READ: usize = 16 << 10;

#[derive(Debug)]
pub(in crate::bus) struct Reader {
    source: Source,
    accounts: Arc<Accounts>,
    refusals: mpsc::Sender<Refused>,
}

impl Reader {
    pub(super) fn new(
        stream: OwnedReadHalf,
        accounts: Arc<Accounts>,
        refusals: mpsc::Sender<Refused>,
    ) -> Self {
        Self {
            source: Source {
                early: Vec::new(),
                stream: BufReader::with_capacity(READ, stream),
            },
            accounts,
            refusals,
        }
    }

    /// Reads one message; `None` if it goes no further.
    async fn sift(&mut self, seq: u64) -> zbus::Result<Option<Message>> {
        let mut fixed = [0; FIXED];
        self.source.read(&mut fixed).await?;
        let fixed = Fixed::read(fixed).map_err(|error| zbus::Error::Failure(error.to_string()))?;
        if fixed.fields() > LONGEST_FIELDS {
            return self.unreadable(fixed.fields() + fixed.body()).await;
        }
        let mut fields = vec![0; fixed.fields()];
        self.source.read(&mut fields).await?;
        let Some(header) = Header::read(fixed, &fields) else {
            return self.unreadable(fixed.body()).await;
        };
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
            return self.whole(&header, fixed.body(), seq).await;
        }
        let call = Call {
            serial: fixed.serial(),
            bytes: FIXED + fields.len() + fixed.body(),
            answered: fixed.expects_reply(),
        };
        match self.accounts.begin(sender, call) {
            Admission::Taken => {
                let message = self.whole(&header, fixed.body(), seq).await?;
                if message.is_none() {
                    self.accounts.forgo(sender, call.serial);
                }
                Ok(message)
            }
            Admission::Dropped => {
                self.source.skip(fixed.body()).await?;
                Ok(None)
            }
            Admission::Refused(why) => {
                self.source.skip(fixed.body()).await?;
                let bare = parse(header.write_bare(), seq).await;
                let refused = bare.map(|call| self.refusals.try_send(Refused { call, why }));
                if !matches!(refused, Some(Ok(()))) {
                    self.accounts.forgo(sender, call.serial);
                }
                Ok(None)
            }
        }
    }

    /// Reads the body, and makes a message of it; `None` if it is none.
    async fn whole(
        &mut self,
        header: &Header,
        body: usize,
        seq: u64,
    ) -> zbus::Result<Option<Message>> {
        let Some(mut bytes) = header.write() else {
            return self.unreadable(body).await;
        };
        let start = bytes.len();
        bytes.resize(start + body, 0);
        self.source.read(&mut bytes[start..]).await?;
        let message = parse(Some(bytes), seq).await;
        if message.is_none() {
            self.accounts.count_unreadable();
        }
        Ok(message)
    }

    async fn unreadable(&mut self, rest: usize) -> zbus::Result<Option<Message>> {
        self.source.skip(rest).await?;
        self.accounts.count_unreadable();
        Ok(None)
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
        self.source.early.append(early);
        loop {
            if let Some(message) = self.sift(seq).await? {
                return Ok(message);
            }
        }
    }

    /// Of the handshake.
    async fn recvmsg(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        Ok((self.source.stream.read(buffer).await?, Vec::new()))
    }

    fn can_pass_unix_fd(&self) -> bool {
        true
    }
}

/// The bytes from the bus. Whatever descriptors come along the kernel closes, as plain reads have no place for them.
#[derive(Debug)]
struct Source {
    /// What came with the handshake; it is first.
    early: Vec<u8>,
    stream: BufReader<OwnedReadHalf>,
}

impl Source {
    async fn read(&mut self, out: &mut [u8]) -> io::Result<()> {
        let early = self.early.len().min(out.len());
        out[..early].copy_from_slice(&self.early[..early]);
        self.early.drain(..early);
        self.stream.read_exact(&mut out[early..]).await?;
        Ok(())
    }

    async fn skip(&mut self, bytes: usize) -> io::Result<()> {
        let early = self.early.len().min(bytes);
        self.early.drain(..early);
        let rest = (bytes - early) as u64;
        let skipped = tokio::io::copy(&mut (&mut self.stream).take(rest), &mut sink()).await?;
        if skipped < rest {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }
}

/// zbus's own reading of a whole message.
async fn parse(bytes: Option<Vec<u8>>, seq: u64) -> Option<Message> {
    let mut whole = Whole;
    whole
        .receive_message(seq, &mut bytes?, &mut Vec::new())
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

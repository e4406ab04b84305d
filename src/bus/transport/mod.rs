//! The socket below zbus: checks messages from the bus before zbus reads them, and counts messages to the bus.
//!
//! zbus ends its connection at the first message that it cannot parse, accepts messages of any size, does not say when a
//! reply has been written, and handles messages in the order of arrival. No client may gain from that, so the daemon has
//! its own halves of the socket. They know the wire format of a header and its sender. The meaning of a call is for the
//! interfaces, and the objects that a sender may reach are for the call filter.
//!
//! A call passes `source`, `intake`, `inbox`, `reader` and zbus; its answer passes `writer` and `outbox`.

mod call_filter;
mod fair_queue;
mod header;
mod inbox;
mod intake;
mod outbox;
mod reader;
mod source;
mod writer;

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixStream as StdStream};
use std::sync::Arc;

use nix::sys::socket::{setsockopt, sockopt::SndBuf};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use zbus::address::transport::{Transport, UnixSocket};
use zbus::connection::socket::{Socket, Split};

use super::accounts::Accounts;
pub(super) use call_filter::{CallFilter, Refused};
use inbox::Inbox;
use intake::Intake;
pub(super) use outbox::Outbox;
use reader::Reader;
use source::ByteSource;
use writer::Writer;

/// Refused calls whose answers are not yet written; further ones get no answer.
const REFUSALS: usize = 64;

/// The kernel's buffer of bytes that the bus has not read, as the kernel counts them: a few dozen answers. Answers in it
/// cannot be reordered, and dbus-daemon reads 2 KiB of a connection at a time.
const KERNEL_BUFFER: usize = 8 << 10;

/// A connected socket of a bus.
#[derive(Debug)]
pub(super) struct BusSocket {
    stream: UnixStream,
    accounts: Arc<Accounts>,
    inbox: Arc<Inbox>,
    outbox: Arc<Outbox>,
    refusals: mpsc::Sender<Refused>,
    filter: Arc<dyn CallFilter>,
}

impl BusSocket {
    /// Connects to an address of the kind `unix:`. Also returns the refused calls, which the caller answers.
    pub(super) async fn connect(
        address: &zbus::Address,
        accounts: Arc<Accounts>,
        filter: Arc<dyn CallFilter>,
    ) -> zbus::Result<(Self, mpsc::Receiver<Refused>)> {
        let Transport::Unix(unix) = address.transport() else {
            return Err(zbus::Error::Address(format!(
                "{address} is not a unix socket; the daemon serves callers on this machine only"
            )));
        };
        let stream = match unix.path() {
            UnixSocket::File(path) => UnixStream::connect(path).await,
            UnixSocket::Abstract(name) => connect_abstract(name.as_bytes()),
            _ => Err(io::ErrorKind::Unsupported.into()),
        };
        let stream = stream?;
        setsockopt(&stream, SndBuf, &KERNEL_BUFFER).map_err(io::Error::from)?;
        let (refusals, refused) = mpsc::channel(REFUSALS);
        let socket = Self {
            stream,
            inbox: Arc::new(Inbox::new(accounts.clone())),
            outbox: Arc::new(Outbox::new(accounts.clone())),
            accounts,
            refusals,
            filter,
        };
        Ok((socket, refused))
    }

    /// Returns the queue of messages to write.
    pub(super) fn outbox(&self) -> Arc<Outbox> {
        self.outbox.clone()
    }
}

fn connect_abstract(name: &[u8]) -> io::Result<UnixStream> {
    let stream = StdStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

impl Socket for BusSocket {
    type ReadHalf = Reader;
    type WriteHalf = Writer;

    fn split(self) -> Split<Reader, Writer> {
        let (read, write) = self.stream.into_split();
        let (accounts, inbox) = (self.accounts, self.inbox);
        let intake = Intake {
            source: ByteSource::new(read),
            accounts: accounts.clone(),
            inbox: inbox.clone(),
            refusals: self.refusals,
            filter: self.filter.clone(),
        };
        let reader = Reader::new(intake, self.filter);
        Split::new(reader, Writer::new(write, accounts, inbox, self.outbox))
    }
}

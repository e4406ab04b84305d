//! The socket below zbus: what comes from the bus is sifted before zbus sees it, what goes there is counted.
//!
//! zbus ends its connection at the first message that it cannot parse, takes messages of any size, does not say when
//! a reply has been written, and deals with whatever came first first. Nobody on the bus may depend on that: so its
//! halves of the socket are these. They know the wire format of a header and who sent it; what a call means is for the
//! interfaces, and which objects a sender may reach for the gate. A call's way: `source`, `sift`, `inbox`, `reader`, zbus; its
//! answer's: `writer`, `outbox`.

mod header;
mod inbox;
mod outbox;
mod pace;
mod reader;
mod sift;
mod source;
mod turns;
mod writer;

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixStream as StdStream};
use std::sync::Arc;
use std::{fmt, io};

use nix::sys::socket::{setsockopt, sockopt::SndBuf};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use zbus::Message;
use zbus::address::transport::{Transport, UnixSocket};
use zbus::connection::socket::{Socket, Split};

use super::accounts::Accounts;
use inbox::Inbox;
pub(super) use outbox::Outbox;
use reader::Reader;
use sift::Sifter;
use source::Source;
use writer::Writer;

/// Refused calls whose answers wait to be written; further ones get none.
const REFUSALS: usize = 64;

/// Bytes of what the kernel keeps of what was written until the bus reads it, by its own way of counting: some dozens of
/// answers. dbus-daemon reads 2 KiB of a connection in each turn, and there is no overtaking any more.
const KEPT: usize = 8 << 10;

/// A call that was refused before anything of its body was kept.
#[derive(Debug)]
pub(super) struct Refused {
    /// The call without its body.
    pub(super) call: Message,
    pub(super) why: String,
}

/// Says which calls zbus gets.
pub(super) trait Gate: fmt::Debug + Send + Sync {
    /// Returns whether zbus gets a call. Any other is answered elsewhere.
    fn passes(&self, call: &Message) -> bool;

    /// Returns the interface of a call that names none, if one interface alone of its object has the method.
    fn interface(&self, path: &str, member: &str) -> Option<&'static str>;
}

/// A connected socket of a bus.
#[derive(Debug)]
pub(super) struct BusSocket {
    stream: UnixStream,
    accounts: Arc<Accounts>,
    inbox: Arc<Inbox>,
    outbox: Arc<Outbox>,
    refusals: mpsc::Sender<Refused>,
    gate: Arc<dyn Gate>,
}

impl BusSocket {
    /// Connects to an address of the kind `unix:`. Whoever holds the other end answers the calls that are refused.
    pub(super) async fn connect(
        address: &zbus::Address,
        accounts: Arc<Accounts>,
        gate: Arc<dyn Gate>,
    ) -> zbus::Result<(Self, mpsc::Receiver<Refused>)> {
        let Transport::Unix(unix) = address.transport() else {
            return Err(zbus::Error::Address(format!(
                "{address} is no unix socket, and the daemon serves callers of this machine alone"
            )));
        };
        let stream = match unix.path() {
            UnixSocket::File(path) => UnixStream::connect(path).await,
            UnixSocket::Abstract(name) => connect_abstract(name.as_bytes()),
            _ => Err(io::ErrorKind::Unsupported.into()),
        };
        let stream = stream?;
        setsockopt(&stream, SndBuf, &KEPT).map_err(io::Error::from)?;
        let (refusals, refused) = mpsc::channel(REFUSALS);
        let socket = Self {
            stream,
            inbox: Arc::new(Inbox::new(accounts.clone())),
            outbox: Arc::new(Outbox::new(accounts.clone())),
            accounts,
            refusals,
            gate,
        };
        Ok((socket, refused))
    }

    /// What waits to be written.
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
        let sifter = Sifter {
            source: Source::new(read),
            accounts: accounts.clone(),
            inbox: inbox.clone(),
            refusals: self.refusals,
            gate: self.gate.clone(),
        };
        let reader = Reader::new(sifter, self.gate);
        Split::new(reader, Writer::new(write, accounts, inbox, self.outbox))
    }
}

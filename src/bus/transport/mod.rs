//! The socket below zbus: what comes from the bus is sifted before zbus sees it, what goes there is counted.
//!
//! zbus ends its connection at the first message that it cannot parse, takes messages of any size, and does not say when
//! a reply has been written. Nobody on the bus may depend on that: so its halves of the socket are these. They know the
//! wire format of a header and who sent it; what a call means is for the interfaces.

mod header;
mod reader;
mod writer;

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixStream as StdStream};
use std::sync::Arc;

use tokio::net::UnixStream;
use tokio::sync::mpsc;
use zbus::Message;
use zbus::address::transport::{Transport, UnixSocket};
use zbus::connection::socket::{Socket, Split};

use super::accounts::Accounts;
use reader::Reader;
use writer::Writer;

/// Refused calls whose answers wait to be written; further ones get none.
const REFUSALS: usize = 64;

/// A call that was refused before anything of its body was kept.
#[derive(Debug)]
pub(super) struct Refused {
    /// The call without its body.
    pub(super) call: Message,
    pub(super) why: String,
}

/// A connected socket of a bus.
#[derive(Debug)]
pub(super) struct BusSocket {
    stream: UnixStream,
    accounts: Arc<Accounts>,
    refusals: mpsc::Sender<Refused>,
}

impl BusSocket {
    /// Connects to an address of the kind `unix:`. Whoever holds the other end answers the calls that are refused.
    pub(super) async fn connect(
        address: &zbus::Address,
        accounts: Arc<Accounts>,
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
        let (refusals, refused) = mpsc::channel(REFUSALS);
        let socket = Self {
            stream: stream?,
            accounts,
            refusals,
        };
        Ok((socket, refused))
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
        let reader = Reader::new(read, self.accounts.clone(), self.refusals);
        Split::new(reader, Writer::new(write, self.accounts))
    }
}

//! The bytes of one connection: a peer that does not read ends it, and the last answer reaches a peer that still sends.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Sleep, sleep};

/// How long a connection stays open for a peer that still sends, and the most bytes that are read and dropped meanwhile. Without
/// this, a peer that sends a long body would lose the answer that refuses it.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 32 << 20;
/// The time between two checks whether a peer has left.
const CHECK: Duration = Duration::from_millis(100);

/// A connected socket.
#[derive(Debug)]
pub(super) enum Peer {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// A connection whose writes fail if the peer reads nothing for `stall`.
#[derive(Debug)]
pub(super) struct Stream {
    peer: Peer,
    stall: Duration,
    /// The end of the time to read what was written.
    unread: Option<Pin<Box<Sleep>>>,
    /// The end of the time to linger, and the bytes that were dropped.
    linger: Option<(Pin<Box<Sleep>>, usize)>,
}

impl Stream {
    pub(super) fn new(peer: Peer, stall: Duration) -> Self {
        Self {
            peer,
            stall,
            unread: None,
            linger: None,
        }
    }

    /// Returns a watch of the peer that works while the stream is in use elsewhere.
    pub(super) fn presence(&self) -> io::Result<Presence> {
        let (socket, left) = match &self.peer {
            // HUP and ERR, which are always watched: the peer has closed its socket.
            Peer::Unix(stream) => (stream.as_fd(), PollFlags::empty()),
            // Over TCP, a peer that has closed its socket looks like one that only ends its requests.
            Peer::Tcp(stream) => (stream.as_fd(), PollFlags::RDHUP),
        };
        Ok(Presence {
            socket: socket.try_clone_to_owned()?,
            left,
        })
    }

    /// Calls `write` until the peer has read nothing for `stall`.
    fn poll_written<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut Peer>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let written = write(Pin::new(&mut self.peer), context);
        if written.is_ready() {
            self.unread = None;
            return written;
        }
        let stall = self.stall;
        let unread = self.unread.get_or_insert_with(|| Box::pin(sleep(stall)));
        ready!(unread.as_mut().poll(context));
        Poll::Ready(Err(ErrorKind::TimedOut.into()))
    }
}

/// Whether the peer of a connection is still there.
#[derive(Debug)]
pub(super) struct Presence {
    socket: OwnedFd,
    /// The events that mean that it has left.
    left: PollFlags,
}

impl Presence {
    /// Returns when the peer has left. Unlike a read, this also notices it behind further requests that are unread.
    pub(super) async fn left(&self) {
        loop {
            sleep(CHECK).await;
            let mut sockets = [PollFd::new(&self.socket, self.left)];
            let now = Timespec::default();
            if poll(&mut sockets, Some(&now)).is_ok_and(|events| events > 0) {
                return;
            }
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.peer {
            Peer::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
            Peer::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Peer {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_flush(context),
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_written(context, |peer, context| peer.poll_write(context, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.peer).poll_flush(context)
    }

    /// Ends the daemon's side, and drops what the peer still sends until it has closed its own.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.linger.is_none() {
            ready!(Pin::new(&mut self.peer).poll_shutdown(context))?;
            self.linger = Some((Box::pin(sleep(LINGER)), 0));
        }
        loop {
            if let Some((end, dropped)) = &mut self.linger
                && (*dropped > LINGER_BYTES || end.as_mut().poll(context).is_ready())
            {
                return Poll::Ready(Ok(()));
            }
            let mut bytes = [0; 16 << 10];
            let mut buffer = ReadBuf::new(&mut bytes);
            ready!(self.as_mut().poll_read(context, &mut buffer))?;
            let read = buffer.filled().len();
            if read == 0 {
                return Poll::Ready(Ok(()));
            }
            if let Some((_, dropped)) = &mut self.linger {
                *dropped += read;
            }
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_written(context, |peer, context| {
            peer.poll_write_vectored(context, slices)
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

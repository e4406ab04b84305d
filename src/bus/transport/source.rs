//! The bytes from the bus.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::{AsyncReadExt, BufReader, sink};
use tokio::net::unix::OwnedReadHalf;
use zbus::Message;
use zbus::connection::socket::ReadHalf;
use zbus::export::async_trait::async_trait;

/// Bytes of one read, of many small messages.
const READ: usize = 64 << 10;

/// Reads plain bytes: the kernel closes all descriptors that are sent with them.
#[derive(Debug)]
pub(super) struct ByteSource {
    /// Bytes that arrived with the handshake; they come first.
    early: Vec<u8>,
    stream: BufReader<OwnedReadHalf>,
    /// Bytes that zbus has read itself.
    taken: usize,
}

impl ByteSource {
    pub(super) fn new(stream: OwnedReadHalf) -> Self {
        Self {
            early: Vec::new(),
            stream: BufReader::with_capacity(READ, stream),
            taken: 0,
        }
    }

    /// Puts back bytes that were read too early.
    pub(super) fn put_back(&mut self, early: &mut Vec<u8>) {
        self.early.append(early);
    }

    /// Fills `out`.
    pub(super) async fn read(&mut self, out: &mut [u8]) -> io::Result<()> {
        let early = self.early.len().min(out.len());
        out[..early].copy_from_slice(&self.early[..early]);
        self.early.drain(..early);
        self.stream.read_exact(&mut out[early..]).await?;
        Ok(())
    }

    /// Skips this number of bytes.
    pub(super) async fn skip(&mut self, bytes: usize) -> io::Result<()> {
        let early = self.early.len().min(bytes);
        self.early.drain(..early);
        let rest = (bytes - early) as u64;
        let skipped = tokio::io::copy(&mut (&mut self.stream).take(rest), &mut sink()).await?;
        if skipped < rest {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    /// Parses a message of its header and the next `body` bytes, which are copied once; `None` if they are not a message. All
    /// of them are read in any case.
    pub(super) async fn message(
        &mut self,
        mut header: Vec<u8>,
        body: usize,
    ) -> io::Result<Option<Message>> {
        self.taken = 0;
        // The sequence number is not used.
        let read = self.receive_message(0, &mut header, &mut Vec::new()).await;
        self.skip(body.saturating_sub(self.taken)).await?;
        Ok(read.ok())
    }
}

#[async_trait]
impl ReadHalf for ByteSource {
    async fn recvmsg(&mut self, out: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        let early = self.early.len().min(out.len());
        let read = if early > 0 {
            out[..early].copy_from_slice(&self.early[..early]);
            self.early.drain(..early);
            early
        } else {
            self.stream.read(out).await?
        };
        self.taken += read;
        Ok((read, Vec::new()))
    }
}

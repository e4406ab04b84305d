//! The bytes from the bus.

use std::io;

use tokio::io::{AsyncReadExt, BufReader, sink};
use tokio::net::unix::OwnedReadHalf;

/// Bytes that one read takes, of many small messages.
const READ: usize = 64 << 10;

/// Whatever descriptors come along the kernel closes, as plain reads have no place for them.
#[derive(Debug)]
pub(super) struct Source {
    /// What came with the handshake; it is first.
    early: Vec<u8>,
    stream: BufReader<OwnedReadHalf>,
}

impl Source {
    pub(super) fn new(stream: OwnedReadHalf) -> Self {
        Self {
            early: Vec::new(),
            stream: BufReader::with_capacity(READ, stream),
        }
    }

    /// Of the handshake.
    pub(super) async fn read_some(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.stream.read(out).await
    }

    /// Puts back what was read too far.
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

    /// Reads past so many.
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
}

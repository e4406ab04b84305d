//! The bytes from the bus, and the descriptors of its messages.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg as receive,
};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use zbus::Message;
use zbus::connection::socket::ReadHalf;
use zbus::export::async_trait::async_trait;

/// Bytes of one read, of many small messages.
const READ: usize = 64 << 10;
/// The most descriptors that the kernel passes at once.
const DESCRIPTORS: usize = 253;

/// The descriptors of one message.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    pub(super) files: Vec<OwnedFd>,
    /// Whether some were lost, because the process has too many open files.
    pub(super) lost: bool,
}

/// Reads bytes and descriptors.
///
/// The bus sends the descriptors of a message with its first byte, and the kernel ends a read behind them. So the last
/// message that begins before the end of a read has the descriptors of that read.
#[derive(Debug)]
pub(super) struct ByteSource {
    /// Bytes that arrived with the handshake; they come first.
    early: Vec<u8>,
    stream: OwnedReadHalf,
    buffer: Box<[u8]>,
    /// The bytes of the buffer that were not read yet.
    unread: std::ops::Range<usize>,
    /// Bytes of all reads so far.
    received: u64,
    /// The descriptors of each read that had some, with `received` after it.
    descriptors: VecDeque<(u64, Descriptors)>,
    /// Bytes that zbus has read itself.
    taken: usize,
}

impl ByteSource {
    pub(super) fn new(stream: OwnedReadHalf) -> Self {
        Self {
            early: Vec::new(),
            stream,
            buffer: vec![0; READ].into(),
            unread: 0..0,
            received: 0,
            descriptors: VecDeque::new(),
            taken: 0,
        }
    }

    /// Puts back bytes that were read too early.
    pub(super) fn put_back(&mut self, early: &mut Vec<u8>) {
        self.early.append(early);
    }

    /// Drops the descriptors of all messages that were read or skipped.
    pub(super) fn forget_descriptors(&mut self) {
        self.descriptors(0);
    }

    /// Takes the descriptors of the message whose last `rest` bytes are not read yet.
    pub(super) fn descriptors(&mut self, rest: usize) -> Descriptors {
        let waiting = self.early.len() + self.unread.len();
        let end = self.received + rest as u64;
        let mut taken = Descriptors::default();
        while let Some((after, _)) = self.descriptors.front()
            && *after + waiting as u64 <= end
            && let Some((_, more)) = self.descriptors.pop_front()
        {
            taken.lost |= more.lost;
            taken.files.extend(more.files);
        }
        taken
    }

    /// Fills `out`.
    pub(super) async fn read(&mut self, mut out: &mut [u8]) -> io::Result<()> {
        while !out.is_empty() {
            let read = self.some(out).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            out = &mut out[read..];
        }
        Ok(())
    }

    /// Skips this number of bytes.
    pub(super) async fn skip(&mut self, bytes: usize) -> io::Result<()> {
        let early = self.early.len().min(bytes);
        self.early.drain(..early);
        let mut rest = bytes - early;
        while rest > 0 {
            if self.unread.is_empty() {
                self.fill().await?;
            }
            let skipped = self.unread.len().min(rest);
            if skipped == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.unread.start += skipped;
            rest -= skipped;
        }
        Ok(())
    }

    /// Parses a message of its header and the next `body` bytes, which are copied once; `None` if they are not a message. All
    /// of them are read in any case. The header names the number of `files`.
    pub(super) async fn message(
        &mut self,
        mut header: Vec<u8>,
        body: usize,
        mut files: Vec<OwnedFd>,
    ) -> io::Result<Option<Message>> {
        self.taken = 0;
        // The sequence number is not used.
        let read = self.receive_message(0, &mut header, &mut files).await;
        self.skip(body.saturating_sub(self.taken)).await?;
        Ok(read.ok())
    }

    /// Reads some bytes; none at the end of the stream.
    async fn some(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if !self.early.is_empty() {
            let early = self.early.len().min(out.len());
            out[..early].copy_from_slice(&self.early[..early]);
            self.early.drain(..early);
            return Ok(early);
        }
        if self.unread.is_empty() {
            if out.len() >= READ {
                let (read, descriptors) = received(self.stream.as_ref(), out).await?;
                self.count(read, descriptors);
                return Ok(read);
            }
            self.fill().await?;
        }
        let read = self.unread.len().min(out.len());
        let start = self.unread.start;
        out[..read].copy_from_slice(&self.buffer[start..start + read]);
        self.unread.start += read;
        Ok(read)
    }

    /// Fills the empty buffer with what has arrived.
    async fn fill(&mut self) -> io::Result<()> {
        let (read, descriptors) = received(self.stream.as_ref(), &mut self.buffer).await?;
        self.unread = 0..read;
        self.count(read, descriptors);
        Ok(())
    }

    fn count(&mut self, read: usize, descriptors: Descriptors) {
        self.received += read as u64;
        if descriptors.lost || !descriptors.files.is_empty() {
            self.descriptors.push_back((self.received, descriptors));
        }
    }
}

/// Waits for bytes, and reads them with the descriptors that came with the last of them.
async fn received(stream: &UnixStream, out: &mut [u8]) -> io::Result<(usize, Descriptors)> {
    let read = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let got = receive(stream, &mut [IoSliceMut::new(out)], &mut control, flags)?;
        let mut descriptors = Descriptors {
            files: Vec::new(),
            lost: got.flags.contains(ReturnFlags::CTRUNC),
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                descriptors.files.extend(files);
            }
        }
        Ok((got.bytes, descriptors))
    };
    stream.async_io(Interest::READABLE, read).await
}

#[async_trait]
impl ReadHalf for ByteSource {
    /// Reads bytes alone; the descriptors of a message are taken before its body is read.
    async fn recvmsg(&mut self, out: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        let read = self.some(out).await?;
        self.taken += read;
        Ok((read, Vec::new()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{IoSlice, Write as _};
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream as StdStream;

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    use super::*;

    /// Sends bytes with `files` descriptors, as the bus sends the beginning of a message.
    fn send(stream: &StdStream, bytes: &[u8], files: usize) {
        let null = File::open("/dev/null").unwrap();
        let files = vec![null.as_fd(); files];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
        let sent = sendmsg(
            stream,
            &[IoSlice::new(bytes)],
            &mut control,
            SendFlags::empty(),
        );
        assert_eq!(sent.unwrap(), bytes.len());
    }

    #[tokio::test]
    async fn each_message_has_its_own_descriptors() {
        let (mut bus, daemon) = StdStream::pair().unwrap();
        daemon.set_nonblocking(true).unwrap();
        let (reader, _writer) = UnixStream::from_std(daemon).unwrap().into_split();
        let mut source = ByteSource::new(reader);
        // Five messages of four bytes; the third is skipped, and the last arrives in two pieces.
        bus.write_all(b"one.").unwrap();
        send(&bus, b"two.", 2);
        send(&bus, b"skip", 5);
        bus.write_all(b"four").unwrap();
        send(&bus, b"f", 1);
        bus.write_all(b"ive").unwrap();
        let mut found = Vec::new();
        for text in ["one.", "two.", "skip", "four", "five"] {
            source.forget_descriptors();
            let mut head = [0; 2];
            source.read(&mut head).await.unwrap();
            assert_eq!(head, text.as_bytes()[..2]);
            if text != "skip" {
                found.push(source.descriptors(2).files.len());
            }
            source.skip(2).await.unwrap();
        }
        assert_eq!(found, [0, 2, 0, 1]);
    }
}

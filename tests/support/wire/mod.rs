//! A client of the raw D-Bus wire protocol, which can send messages that no library sends.
//!
//! Calls block with a time limit. Messages are sent without checks, and received only on request.

#[allow(dead_code)] // tests read whole messages
mod head;
mod message;
mod received;
mod value;

use std::fs::File;
use std::io::{self, ErrorKind, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

pub(crate) use message::*;
pub(crate) use received::Received;
pub(crate) use value::Value;

pub(crate) const BUS: &str = "org.freedesktop.DBus";
pub(crate) const BUS_PATH: &str = "/org/freedesktop/DBus";
/// The time limit of the bus's own answers.
const ANSWER: Duration = Duration::from_secs(20);
/// The time of one blocking read or write, after which the clock is checked.
const SLICE: Duration = Duration::from_millis(50);
const CHUNK: usize = 64 << 10;
/// The most descriptors that the kernel passes at once.
const DESCRIPTORS: usize = 253;

/// A connection to a bus.
#[derive(Debug)]
pub(crate) struct Wire {
    frames: Frames,
    /// Its unique name.
    pub(crate) name: String,
    serial: u32,
}

impl Wire {
    pub(crate) fn connect(bus: &Path) -> io::Result<Self> {
        let socket = UnixStream::connect(bus)?;
        authenticate(&socket)?;
        let mut wire = Self {
            frames: Frames::new(socket)?,
            name: String::new(),
            serial: 0,
        };
        let hello = wire.send(Message::call(BUS, BUS_PATH, BUS, "Hello"))?;
        let named = wire.reply(hello, ANSWER)?.text();
        wire.name = named.ok_or_else(|| io::Error::other("the bus gives no name"))?;
        Ok(wire)
    }

    /// Sends one message, and returns its serial.
    pub(crate) fn send(&mut self, message: Message) -> io::Result<u32> {
        let message = self.numbered(message);
        self.write(&message.bytes(), later(ANSWER))?;
        Ok(message.serial)
    }

    /// Sends several messages in one write, and returns the serial of the last.
    pub(crate) fn send_all(
        &mut self,
        messages: impl IntoIterator<Item = Message>,
    ) -> io::Result<u32> {
        let mut bytes = Vec::new();
        for message in messages {
            bytes.extend(self.numbered(message).bytes());
        }
        self.write(&bytes, later(ANSWER))?;
        Ok(self.serial)
    }

    /// Assigns the connection's next serial if the message has none.
    pub(crate) fn numbered(&mut self, mut message: Message) -> Message {
        if message.serial == 0 {
            self.serial += 1;
            message.serial = self.serial;
        }
        message
    }

    /// Sends arbitrary bytes. Fails if the bus has not accepted all of them in time.
    pub(crate) fn write(&mut self, bytes: &[u8], late: impl Fn() -> bool) -> io::Result<()> {
        self.frames.write(bytes, late)
    }

    /// Returns the next message, or `None` after that time.
    pub(crate) fn next(&mut self, within: Duration) -> io::Result<Option<Received>> {
        self.frames.next(within)
    }

    /// Returns the answer to a call, and drops all messages before it.
    pub(crate) fn reply(&mut self, serial: u32, within: Duration) -> io::Result<Received> {
        let late = later(within);
        while let Some(received) = self
            .frames
            .next(if late() { Duration::ZERO } else { within })?
        {
            if received.reply_to == serial && matches!(received.kind, RETURN | ERROR) {
                return Ok(received);
            }
        }
        Err(ErrorKind::TimedOut.into())
    }

    /// Sends a call and awaits its answer.
    pub(crate) fn ask(&mut self, message: Message, within: Duration) -> io::Result<Received> {
        let serial = self.send(message)?;
        self.reply(serial, within)
    }
}

/// Returns a function that says whether that time is over.
pub(crate) fn later(time: Duration) -> impl Fn() -> bool {
    let until = Instant::now() + time;
    move || Instant::now() >= until
}

/// Authenticates with the mechanism EXTERNAL and negotiates descriptors.
fn authenticate(mut socket: &UnixStream) -> io::Result<()> {
    socket.set_read_timeout(Some(ANSWER))?;
    let user = nix::unistd::geteuid().to_string();
    // Each digit in hexadecimal.
    let user: String = user.chars().flat_map(|digit| ['3', digit]).collect();
    socket.write_all(format!("\0AUTH EXTERNAL {user}\r\n").as_bytes())?;
    expect(socket, "OK ")?;
    socket.write_all(b"NEGOTIATE_UNIX_FD\r\n")?;
    expect(socket, "AGREE_UNIX_FD")?;
    socket.write_all(b"BEGIN\r\n")
}

fn expect(socket: &UnixStream, begin: &str) -> io::Result<()> {
    let line = read_line(socket)?;
    if line.starts_with(begin) {
        return Ok(());
    }
    Err(io::Error::other(format!("the bus says {line:?}")))
}

/// Reads a line of the authentication and no byte after it.
pub(crate) fn read_line(mut socket: &UnixStream) -> io::Result<String> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte)?;
        line.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

/// The frames of an authenticated connection, in both directions.
#[derive(Debug)]
pub(crate) struct Frames {
    socket: UnixStream,
    read: Vec<u8>,
    descriptors: Vec<File>,
}

impl Frames {
    pub(crate) fn new(socket: UnixStream) -> io::Result<Self> {
        socket.set_read_timeout(Some(SLICE))?;
        socket.set_write_timeout(Some(SLICE))?;
        Ok(Self {
            socket,
            read: Vec::new(),
            descriptors: Vec::new(),
        })
    }

    pub(crate) fn write(&mut self, mut bytes: &[u8], late: impl Fn() -> bool) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.socket.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if is_later(&error) && !late() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(crate) fn next(&mut self, within: Duration) -> io::Result<Option<Received>> {
        let late = later(within);
        loop {
            if let Some(length) = received::length(&self.read)
                && self.read.len() >= length
            {
                let rest = self.read.split_off(length);
                let frame = std::mem::replace(&mut self.read, rest);
                let mut received = Received::read(&frame)
                    .ok_or_else(|| io::Error::other("a frame that cannot be read"))?;
                let announced = received.announced as usize;
                let there = announced.min(self.descriptors.len());
                received.descriptors = self.descriptors.drain(..there).collect();
                return Ok(Some(received));
            }
            match self.receive(!within.is_zero()) {
                Ok(()) => {}
                Err(error) if is_later(&error) && !late() => {}
                Err(error) if is_later(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Receives available bytes, and waits a moment for them if `wait`.
    fn receive(&mut self, wait: bool) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut flags = RecvFlags::CMSG_CLOEXEC;
        flags.set(RecvFlags::DONTWAIT, !wait);
        let mut parts = [IoSliceMut::new(&mut chunk)];
        let got = recvmsg(&self.socket, &mut parts, &mut control, flags)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors.map(File::from));
            }
        }
        if got.bytes == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.read.extend_from_slice(&chunk[..got.bytes]);
        Ok(())
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

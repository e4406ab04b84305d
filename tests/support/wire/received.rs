//! A received message: the relevant header fields, and the body's first argument.

use std::fs::File;

use super::message::{
    DESTINATION, ERROR_NAME, INTERFACE, MEMBER, PATH, REPLY_SERIAL, SENDER, SIGNATURE,
};
use super::value::alignment;

/// Bytes of a header before its fields.
pub(super) const FIXED: usize = 16;
const UNIX_FDS: u8 = 9;

#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) kind: u8,
    #[allow(dead_code)] // only a service reads them
    pub(crate) flags: u8,
    pub(crate) serial: u32,
    pub(crate) path: String,
    pub(crate) interface: String,
    pub(crate) member: String,
    /// The name of an error; empty in other messages.
    pub(crate) error: String,
    pub(crate) reply_to: u32,
    pub(crate) destination: String,
    pub(crate) sender: String,
    pub(crate) signature: String,
    pub(crate) descriptors: Vec<File>,
    /// The number of descriptors in the header.
    pub(super) announced: u32,
    body: Vec<u8>,
    big_endian: bool,
}

/// Returns the length of the frame with this beginning, or `None` if it is too short.
pub(super) fn length(begin: &[u8]) -> Option<usize> {
    lengths(begin).map(|(head, body)| head + body)
}

/// Returns the lengths of its header and its body.
pub(super) fn lengths(begin: &[u8]) -> Option<(usize, usize)> {
    let mut reader = Reader {
        bytes: begin.get(..FIXED)?,
        at: 4,
        big_endian: begin[0] == b'B',
    };
    let (body, _serial, fields) = (reader.u32()?, reader.u32()?, reader.u32()?);
    let head = (FIXED + fields as usize).next_multiple_of(8);
    Some((head, body as usize))
}

impl Received {
    /// Parses a complete frame, or returns `None` if no bus sends it.
    pub(super) fn read(frame: &[u8]) -> Option<Self> {
        let big_endian = frame[0] == b'B';
        let mut reader = Reader {
            bytes: frame,
            at: 4,
            big_endian,
        };
        let body = frame.len() - reader.u32()? as usize;
        let mut received = Self {
            kind: frame[1],
            flags: frame[2],
            serial: reader.u32()?,
            body: frame[body..].to_vec(),
            big_endian,
            ..Self::default()
        };
        let end = FIXED + reader.u32()? as usize;
        while reader.at < end {
            reader.align(8);
            let code = reader.byte()?;
            let signature = reader.signature()?;
            let place = match (code, &*signature) {
                (REPLY_SERIAL, "u") => {
                    received.reply_to = reader.u32()?;
                    continue;
                }
                (UNIX_FDS, "u") => {
                    received.announced = reader.u32()?;
                    continue;
                }
                (PATH, "o") => &mut received.path,
                (INTERFACE, "s") => &mut received.interface,
                (MEMBER, "s") => &mut received.member,
                (ERROR_NAME, "s") => &mut received.error,
                (DESTINATION, "s") => &mut received.destination,
                (SENDER, "s") => &mut received.sender,
                (SIGNATURE, "g") => {
                    received.signature = reader.signature()?;
                    continue;
                }
                _ => return None,
            };
            *place = reader.text()?;
        }
        Some(received)
    }

    /// Returns the first argument, if it is a text or a path, or a variant of one.
    pub(crate) fn text(&self) -> Option<String> {
        let mut reader = Reader {
            bytes: &self.body,
            at: 0,
            big_endian: self.big_endian,
        };
        let mut signature = self.signature.clone();
        if signature.starts_with('v') {
            signature = reader.signature()?;
        }
        matches!(signature.bytes().next(), Some(b's' | b'o')).then(|| reader.text())?
    }

    /// Whether a text is in its arguments.
    pub(crate) fn has(&self, text: &str) -> bool {
        self.after(text).is_some()
    }

    /// Returns the number of that name in a dictionary of its arguments.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        let mut reader = Reader {
            bytes: &self.body,
            at: self.after(name)? + 1,
            big_endian: self.big_endian,
        };
        (reader.signature()? == "u").then(|| reader.u32())?
    }

    /// Returns the end of a text in its arguments.
    fn after(&self, text: &str) -> Option<usize> {
        let mut places = self.body.windows(text.len());
        let at = places.position(|bytes| bytes == text.as_bytes())?;
        Some(at + text.len())
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    big_endian: bool,
}

impl Reader<'_> {
    fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to);
    }

    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    fn u32(&mut self) -> Option<u32> {
        self.align(alignment("u"));
        let bytes: [u8; 4] = self.take(4)?.try_into().ok()?;
        Some(if self.big_endian {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        })
    }

    fn text(&mut self) -> Option<String> {
        let length = self.u32()? as usize;
        let text = self.take(length + 1)?;
        String::from_utf8(text[..length].to_vec()).ok()
    }

    fn signature(&mut self) -> Option<String> {
        let length = self.byte()? as usize;
        let text = self.take(length + 1)?;
        String::from_utf8(text[..length].to_vec()).ok()
    }
}

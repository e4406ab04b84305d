//! The messages in the pipes between the daemon and the process that runs a template: a kind, a length and that many
//! bytes.

use std::io::{self, Read, Write};

/// The kind of a frame. The first one to the process is the template, all others are variables; each gets one reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    Source,
    Variables,
    /// The template is usable (no bytes), or the rendered text.
    Text,
    /// The template refuses the conversation, with its reason.
    Refused,
    /// The template is invalid, with the reason.
    Wrong,
    /// The template exceeded a limit.
    Stopped,
}

const KINDS: [FrameKind; 6] = [
    FrameKind::Source,
    FrameKind::Variables,
    FrameKind::Text,
    FrameKind::Refused,
    FrameKind::Wrong,
    FrameKind::Stopped,
];

pub(super) fn write(to: &mut impl Write, kind: FrameKind, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    let [a, b, c, d] = length.to_le_bytes();
    to.write_all(&[kind as u8, a, b, c, d])?;
    to.write_all(bytes)?;
    to.flush()
}

/// Reads the next frame, of at most `longest` bytes.
pub(super) fn read(from: &mut impl Read, longest: usize) -> io::Result<(FrameKind, Vec<u8>)> {
    let mut head = [0; 5];
    from.read_exact(&mut head)?;
    let [kind, length @ ..] = head;
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    let kind = *KINDS.get(usize::from(kind)).ok_or_else(malformed)?;
    let length = usize::try_from(u32::from_le_bytes(length)).map_err(io::Error::other)?;
    if length > longest {
        return Err(malformed());
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok((kind, bytes))
}

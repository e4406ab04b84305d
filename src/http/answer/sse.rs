//! Server-sent events. JSON has no line breaks within.

use serde::Serialize;

/// Writes an event without a name.
pub(in crate::http) fn write(out: &mut Vec<u8>, value: &impl Serialize) {
    out.extend_from_slice(b"data: ");
    // Serializing to memory fails only for maps without text keys.
    let _ = serde_json::to_writer(&mut *out, value);
    out.extend_from_slice(b"\n\n");
}

/// Writes a comment, which readers skip.
pub(in crate::http) fn write_comment(out: &mut Vec<u8>) {
    out.extend_from_slice(b":\n\n");
}

/// Writes an event with a name.
pub(in crate::http) fn write_named(out: &mut Vec<u8>, name: &str, value: &impl Serialize) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    out.push(b'\n');
    write(out, value);
}

//! Decoding: from the bytes of an untrusted caller to pixels.
//!
//! `Opened` checks the header and all limits, and then decodes. Memory is at most `Opened::memory`, and time is bounded by
//! the pixels and the bytes. Libraries decode JPEG, PNG and WebP; this module checks a file's structure before they see it.
//! Not here: colour profiles, which are ignored, and frames of animations, which are refused.

mod alpha;
mod guard;
mod jpeg;
mod jpeg_segments;
mod opened;
mod orientation;
mod png;
mod raw;
mod reader;
mod webp;
mod webp_chunks;
mod webp_tables;
mod yuv;

pub use guard::is_decoding;
pub use opened::Opened;

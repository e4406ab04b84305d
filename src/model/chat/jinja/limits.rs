//! Limits of a rendering.

/// Instructions of one rendering: hundreds for each of ten thousand messages.
pub(super) const FUEL: u64 = 10_000_000;
/// Levels of scopes; a macro counts four.
pub(super) const RECURSION: usize = 400;
/// Bytes that one value may have.
pub(super) const LARGEST: usize = 64 << 20;

//! The length of a page.

/// Positions of a page.
pub const PAGE: usize = 64;

//! Conversion of numbers to those of kernels.

/// Converts a number to 32 bits. Positions and rows are bounded by the context, which is far below 2^32.
pub(super) fn narrow(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

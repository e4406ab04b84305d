//! A block as integers and factors, for executors that multiply integers.

/// Integers that share a factor, at least.
pub const PIECE: usize = 16;
/// The most pieces of a block.
pub const PIECES: usize = 256 / PIECE;

/// The integers of one block, and their factors. A value is `scale * scales[piece] * integer + addends[piece]`.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// 32 or 256 integers.
    pub integers: &'a [i8],
    pub scale: f32,
    /// An integer factor for each piece; all are 1 in a block of 32.
    ///
    /// The product with an integer is at most 4096, so that 16 products with 16-bit activations fit in 32 bits.
    pub scales: [i16; PIECES],
    /// For formats with minima.
    pub addends: Option<[f32; PIECES]>,
}

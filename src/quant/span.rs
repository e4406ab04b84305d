//! A block as integers and factors, for executors that multiply integers.

/// Integers that share a factor, at least.
pub const PIECE: usize = 16;
/// The most pieces of a block.
pub const PIECES: usize = 256 / PIECE;

/// The integers of one block, and their factors. A value is `scale * scales[group] * integer + addends[piece]`.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// 32 or 256 integers.
    pub integers: &'a [i8],
    /// The columns of a group, which have the same factor: 16 or 32.
    pub columns: usize,
    pub scale: f32,
    /// An integer factor for each group; it is 1 in a block of 32.
    ///
    /// The product with an integer is at most 4096, so that 16 products with 16-bit activations fit in 32 bits.
    pub scales: [i8; PIECES],
    /// For each 16 integers, in formats with minima.
    pub addends: Option<[f32; PIECES]>,
}

impl Span<'_> {
    /// The integer factors of sixteen integers and the next sixteen, which begin at 32 times `at`.
    #[allow(clippy::inline_always)] // an executor's vector instructions reach only what is inlined into it
    #[inline(always)]
    #[must_use]
    pub fn scales(&self, at: usize) -> [i16; 2] {
        if self.columns > PIECE {
            return [i16::from(self.scales[at]); 2];
        }
        [2 * at, 2 * at + 1].map(
            #[inline(always)]
            |group| i16::from(self.scales[group]),
        )
    }
}

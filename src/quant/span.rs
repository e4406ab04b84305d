//! Blocks as integers and factors, for executors that multiply integers.

use super::vectors::Vectors;

/// Integers that share a factor, at least.
pub const PIECE: usize = 16;
/// The most pieces of a block.
pub const PIECES: usize = 256 / PIECE;
/// Blocks of 32 integers that are passed on together.
pub const SHORT: usize = 4;

/// The integers of blocks: `N` times 64, in their order.
pub trait Integers<V: Vectors, const N: usize> {
    fn unpack(self, vectors: V) -> [V::Bytes; N];
}

/// Takes the blocks of a row in their order.
pub trait Blocks<V: Vectors> {
    /// Takes a block of 256 integers.
    fn long(&mut self, factors: &Long, integers: impl Integers<V, 4>);

    /// Takes `SHORT` blocks of 32 integers. The factors are 0 for blocks beyond the row's end.
    fn short(&mut self, factors: &Short, integers: impl Integers<V, 2>);
}

/// The factors of a block of 256. A value is `scale * scales[group] * integer - minimum * minima[group]`.
#[derive(Clone, Copy, Debug)]
pub struct Long {
    /// The columns of a group, which have the same factor: 16 or 32.
    pub columns: usize,
    pub scale: f32,
    /// An integer factor for each group.
    ///
    /// The product with an integer is at most 4096, so that 16 products with 16-bit activations fit in 32 bits.
    pub scales: [i8; PIECES],
    /// Whether that product is at most 1024, so that 64 of them fit.
    pub are_small: bool,
    /// In formats with minima.
    pub minima: Option<(f32, [u8; PIECES])>,
}

/// The factors of blocks of 32. A value is `scale * integer + addend`.
#[derive(Clone, Copy, Debug)]
pub struct Short {
    pub scales: [f32; SHORT],
    /// In formats whose integers are not centered at zero.
    pub addends: Option<[f32; SHORT]>,
    /// Whether integers can be negative.
    pub signed: bool,
}

//! The operations that unpack integers in vectors, whatever the width of a machine's vectors.

/// A machine with vectors of 64 bytes, or with several smaller ones in their place. A quarter has 16 bytes.
pub trait Vectors: Copy {
    type Bytes: Copy;

    fn load(self, bytes: &[u8; 64]) -> Self::Bytes;

    /// Two halves.
    fn join(self, first: &[u8; 32], second: &[u8; 32]) -> Self::Bytes;

    /// Both quarters of the first half are `first`, and those of the second half `second`.
    fn double(self, first: &[u8; 16], second: &[u8; 16]) -> Self::Bytes;

    /// Shifts the bytes of each quarter to the left and masks them. The mask excludes bits of neighbouring bytes.
    fn left(self, bytes: Self::Bytes, by: [u32; 4], mask: u8) -> Self::Bytes;

    /// Shifts the bytes of each quarter to the right and masks them. The mask excludes bits of neighbouring bytes.
    fn right(self, bytes: Self::Bytes, by: [u32; 4], mask: u8) -> Self::Bytes;

    fn or(self, left: Self::Bytes, right: Self::Bytes) -> Self::Bytes;

    fn subtract(self, bytes: Self::Bytes, by: u8) -> Self::Bytes;

    /// The bytes of the table at indexes below 16.
    fn look_up(self, table: &[i8; 16], indexes: Self::Bytes) -> Self::Bytes;

    /// Byte `i` is `value` if bit `i` is set, and otherwise 0.
    fn spread(self, bits: [u32; 2], value: u8) -> Self::Bytes;

    /// Changes the sign of byte `i` if bit `i` is set.
    fn negate(self, bytes: Self::Bytes, bits: [u32; 2]) -> Self::Bytes;

    /// The values of IEEE 754 halves, of which a word has four, from its lowest bits up. Vectors are filled with words
    /// faster than with halves.
    fn halves(self, words: [u64; 2]) -> [f32; 8];
}

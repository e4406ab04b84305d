//! How random blocks of a format are made.

/// How random blocks of a format are made.
pub(super) enum Block {
    /// A function that writes one value.
    Number(fn(f32, &mut [u8])),
    /// Random integers with fitting scales.
    Scales(Scales),
}

/// The scale of a block, and its minimum if it has one.
pub(super) struct Scales {
    /// The offset of the scale, which is a half. A minimum follows it.
    pub(super) at: usize,
    /// The root mean square of the integers.
    pub(super) spread: f32,
    /// The minimum as a multiple of the scale, so that values are on both sides of 0. K formats subtract theirs; 0 if
    /// there is none.
    pub(super) minimum: f32,
}

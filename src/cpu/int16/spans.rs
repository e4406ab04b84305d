//! Spans of a row of activations as 16-bit integers.

use super::machine::{Columns, SUMS};
use crate::quant::{PIECE, SHORT};

/// The greatest integer.
const MOST: f32 = 32_767.0;
/// 1.5 times 2^23: after an addition, the low bits of the sum hold the rounded number.
const ROUNDER: f32 = 12_582_912.0;
/// Columns that a short block has.
pub(super) const BLOCK: usize = 32;

/// 256 columns with a unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Long {
    pub(super) columns: [Columns; 8],
    /// The unit of the integers. NaN if one of the values is not a number.
    pub(super) unit: f32,
    /// The sums of each 16 columns.
    of_16: [f32; SUMS],
    /// The sums of each 32 columns, then zeros.
    of_32: [f32; SUMS],
}

/// Four times 32 columns with a unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Short {
    pub(super) columns: [Columns; 4],
    pub(super) units: [f32; SHORT],
    /// The sums of each 32 columns.
    pub(super) sums: [f32; SHORT],
}

impl Long {
    pub(super) const NONE: &Self = &Self {
        columns: [Columns::ZEROS; 8],
        unit: 0.0,
        of_16: [0.0; SUMS],
        of_32: [0.0; SUMS],
    };

    /// The sums of groups of 16 or 32 `columns`.
    #[inline(always)]
    pub(super) fn sums(&self, columns: usize) -> &[f32; SUMS] {
        if columns > PIECE {
            &self.of_32
        } else {
            &self.of_16
        }
    }

    /// The first values of a row.
    #[inline(always)]
    pub(super) fn of(values: &[f32]) -> Self {
        match values.first_chunk() {
            Some(values) => Self::new(values),
            None => *Self::NONE,
        }
    }

    #[inline(always)]
    pub(super) fn new(values: &[f32; 256]) -> Self {
        let (unit, by) = unit(values);
        let mut new = Self {
            unit,
            ..*Self::NONE
        };
        let integers: [i16; 256] = integers(values, by);
        let parts = new.columns.as_chunks_mut().0.iter_mut();
        for (to, integers) in parts.zip(integers.as_chunks().0) {
            *to = Columns::of(integers);
        }
        for (to, piece) in new.of_16.iter_mut().zip(integers.as_chunks().0) {
            *to = sum(piece);
        }
        for (group, to) in new.of_32.iter_mut().take(SUMS / 2).enumerate() {
            // Sums of integers below 2^24 are exact.
            *to = (new.of_16[2 * group] + new.of_16[2 * group + 1]) * unit;
        }
        for to in &mut new.of_16 {
            *to *= unit;
        }
        new
    }
}

impl Short {
    pub(super) const NONE: &Self = &Self {
        columns: [Columns::ZEROS; 4],
        units: [0.0; SHORT],
        sums: [0.0; SHORT],
    };

    /// The first values of a row that may end before.
    #[inline(always)]
    pub(super) fn of(values: &[f32]) -> Self {
        if let Some(values) = values.first_chunk() {
            return Self::new(values);
        }
        let mut whole = [0.0; SHORT * BLOCK];
        whole[..values.len()].copy_from_slice(values);
        Self::new(&whole)
    }

    #[inline(always)]
    fn new(values: &[f32; SHORT * BLOCK]) -> Self {
        let mut new = *Self::NONE;
        let mut all = [0; SHORT * BLOCK];
        let blocks = all.as_chunks_mut().0.iter_mut();
        for (at, (to, values)) in blocks.zip(values.as_chunks::<BLOCK>().0).enumerate() {
            let (unit, by) = unit(values);
            *to = integers(values, by);
            let [first, second] = pulp::cast(*to);
            new.units[at] = unit;
            new.sums[at] = (sum(&first) + sum(&second)) * unit;
        }
        let parts = new.columns.as_chunks_mut().0.iter_mut();
        for (to, integers) in parts.zip(all.as_chunks().0) {
            *to = Columns::of(integers);
        }
        new
    }
}

impl Columns {
    /// The columns with even numbers, and those with odd ones.
    #[inline(always)]
    fn of(integers: &[i16; 64]) -> [Self; 2] {
        let [mut even, mut odd] = [Self::ZEROS; 2];
        for (at, pair) in integers.as_chunks().0.iter().enumerate() {
            let at = Self::place(at);
            [even.0[at], odd.0[at]] = *pair;
        }
        [even, odd]
    }
}

/// Rounds values to integers, which are zero if the factor is.
#[inline(always)]
fn integers<const N: usize>(values: &[f32; N], by: f32) -> [i16; N] {
    let mut integers = [0; N];
    for (integer, x) in integers.iter_mut().zip(values) {
        let scaled = if by > 0.0 { x * by } else { 0.0 };
        #[allow(clippy::cast_possible_truncation)] // at most `MOST`
        let low = (scaled + ROUNDER).to_bits() as u16;
        *integer = low.cast_signed();
    }
    integers
}

#[inline(always)]
fn sum(integers: &[i16; PIECE]) -> f32 {
    let integers = integers.iter();
    let sum: i32 = integers.map(|integer| i32::from(*integer)).sum();
    #[allow(clippy::cast_precision_loss)] // below 2^24
    let sum = sum as f32;
    sum
}

/// The greater one of each element and of the one half a length further.
#[inline(always)]
fn greater<const ALL: usize, const HALF: usize>(values: &[f32; ALL]) -> [f32; HALF] {
    let mut greater = [0.0; HALF];
    for (i, to) in greater.iter_mut().enumerate() {
        let [a, b] = [values[i], values[i + HALF]];
        *to = if a > b { a } else { b };
    }
    greater
}

/// Returns the unit of a span, and its inverse, which is zero if all integers are.
#[inline(always)]
fn unit(span: &[f32]) -> (f32, f32) {
    let (mut greatest, mut finite) = ([0.0_f32; BLOCK], true);
    for values in span.as_chunks::<BLOCK>().0 {
        for (greatest, x) in greatest.iter_mut().zip(values) {
            *greatest = if x.abs() > *greatest {
                x.abs()
            } else {
                *greatest
            };
            finite &= x.is_finite();
        }
    }
    if !finite {
        return (f32::NAN, 0.0);
    }
    // In pairs, which vector instructions support.
    let greatest: [f32; BLOCK / 2] = greater(&greatest);
    let greatest: [f32; BLOCK / 4] = greater(&greatest);
    let greatest: [f32; BLOCK / 8] = greater(&greatest);
    let [a, b] = greater(&greatest);
    let greatest = if a > b { a } else { b };
    let by = MOST / greatest;
    // Values that are almost zero become zero.
    let by = if by.is_finite() { by } else { 0.0 };
    (greatest / MOST, by)
}

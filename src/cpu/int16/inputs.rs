//! Rows of activations as 16-bit integers.

use pulp::NullaryFnOnce;

use super::machine::{Columns, SUMS};
use crate::cpu::dots::eight_in_pairs;
use crate::quant::{PIECE, SHORT};

/// The greatest integer.
const MOST: f32 = 32_767.0;
/// 1.5 times 2^23: after an addition, the low bits of the sum hold the rounded number.
const ROUNDER: f32 = 12_582_912.0;
/// Columns that a short block has.
const BLOCK: usize = 32;

/// Rows of activations, for weights with long blocks or with short ones.
#[derive(Debug, Default)]
pub(in crate::cpu) struct Inputs {
    /// (rows, columns / 256)
    long: Vec<Long>,
    /// (rows, columns / 128), the last one filled up with zeros
    short: Vec<Short>,
    rows: usize,
    /// The spans of a row.
    spans: usize,
}

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

    #[inline(always)]
    fn new(values: &[f32; 256]) -> Self {
        let (unit, by) = unit(values);
        let mut new = Self {
            unit,
            ..*Self::NONE
        };
        let parts = new.columns.as_chunks_mut().0.iter_mut();
        for (to, values) in parts.zip(values.as_chunks().0) {
            Columns::fill(to, values, [by; 2]);
        }
        let pieces = values.as_chunks::<PIECE>().0;
        for (to, piece) in new.of_16.iter_mut().zip(pieces) {
            *to = sum(piece, by);
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

    #[inline(always)]
    fn new(values: &[f32; SHORT * BLOCK]) -> Self {
        let mut new = *Self::NONE;
        let mut factors = [0.0; SHORT];
        for (at, values) in values.as_chunks::<BLOCK>().0.iter().enumerate() {
            let (unit, by) = unit(values);
            let pieces = values.as_chunks().0;
            (new.units[at], factors[at]) = (unit, by);
            new.sums[at] = (sum(&pieces[0], by) + sum(&pieces[1], by)) * unit;
        }
        let parts = new.columns.as_chunks_mut().0.iter_mut();
        let factors = factors.as_chunks().0;
        for (to, (values, by)) in parts.zip(values.as_chunks().0.iter().zip(factors)) {
            Columns::fill(to, values, *by);
        }
        new
    }
}

impl Columns {
    /// Rounds 64 columns, with a factor for each half of them, to integers. It splits those with even numbers from those
    /// with odd ones.
    #[inline(always)]
    fn fill([even, odd]: &mut [Self; 2], values: &[f32; 64], by: [f32; 2]) {
        for (half, by) in by.into_iter().enumerate() {
            for at in half * PIECE..(half + 1) * PIECE {
                even.0[at] = integer(raised(values[2 * at], by));
                odd.0[at] = integer(raised(values[2 * at + 1], by));
            }
        }
    }
}

impl Inputs {
    /// Converts rows of `columns`, a multiple of the span, which is 32 or 256.
    pub(in crate::cpu) fn fill(&mut self, from: &[f32], columns: usize, span: usize) {
        pulp::Arch::new().dispatch(Filling {
            inputs: self,
            from,
            columns,
            span,
        });
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// A row for weights with long blocks.
    #[inline(always)]
    pub(super) fn long(&self, row: usize) -> &[Long] {
        if self.long.is_empty() {
            return &[];
        }
        &self.long[row * self.spans..][..self.spans]
    }

    /// A row for weights with short blocks.
    #[inline(always)]
    pub(super) fn short(&self, row: usize) -> &[Short] {
        if self.short.is_empty() {
            return &[];
        }
        &self.short[row * self.spans..][..self.spans]
    }
}

struct Filling<'a> {
    inputs: &'a mut Inputs,
    from: &'a [f32],
    columns: usize,
    span: usize,
}

impl NullaryFnOnce for Filling<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self {
            inputs,
            from,
            columns,
            span,
        } = self;
        let Inputs {
            long,
            short,
            rows,
            spans,
        } = inputs;
        *rows = from.len() / columns;
        // A row has no spans of the other kind.
        if span > BLOCK {
            short.clear();
            *spans = columns / span;
            long.resize(from.len() / span, *Long::NONE);
            for (to, values) in long.iter_mut().zip(from.as_chunks().0) {
                *to = Long::new(values);
            }
            return;
        }
        long.clear();
        *spans = columns.div_ceil(SHORT * BLOCK);
        short.resize(*rows * *spans, *Short::NONE);
        for (to, row) in short
            .chunks_exact_mut(*spans)
            .zip(from.chunks_exact(columns))
        {
            for (to, values) in to.iter_mut().zip(row.chunks(SHORT * BLOCK)) {
                let mut whole = [0.0; SHORT * BLOCK];
                whole[..values.len()].copy_from_slice(values);
                *to = Short::new(&whole);
            }
        }
    }
}

/// A value that is rounded to an integer, plus `ROUNDER`; zero if the factor is.
#[inline(always)]
fn raised(x: f32, by: f32) -> f32 {
    let scaled = if by > 0.0 { x * by } else { 0.0 };
    scaled + ROUNDER
}

/// The integer in the low bits of a raised value.
#[inline(always)]
fn integer(raised: f32) -> i16 {
    #[allow(clippy::cast_possible_truncation)] // at most `MOST`
    let low = raised.to_bits() as u16;
    low.cast_signed()
}

/// The sum of values that are rounded to integers.
#[inline(always)]
fn sum(values: &[f32; PIECE], by: f32) -> f32 {
    let mut parts = [0.0; PIECE / 2];
    for (i, part) in parts.iter_mut().enumerate() {
        let [first, second] = [raised(values[i], by), raised(values[i + PIECE / 2], by)];
        *part = (first - ROUNDER) + (second - ROUNDER);
    }
    eight_in_pairs(&parts)
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
    let greatest = greatest.into_iter().fold(0.0, f32::max);
    let by = MOST / greatest;
    // Values that are almost zero become zero.
    let by = if by.is_finite() { by } else { 0.0 };
    (greatest / MOST, by)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The integers of columns, in their order.
    fn integers(columns: &[Columns]) -> impl Iterator<Item = i16> {
        columns.as_chunks().0.iter().flat_map(|[even, odd]| {
            let pairs = even.0.iter().zip(odd.0);
            pairs.flat_map(|(even, odd)| [*even, odd])
        })
    }

    #[test]
    fn integers_are_accurate_in_each_span() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut row: Vec<f32> = (0..512).map(|_| random.f32() - 0.5).collect();
        row[300] = 4000.0;
        row[64..96].fill(0.0);
        for span in [32, 256] {
            let mut inputs = Inputs::default();
            inputs.fill(&row, row.len(), span);
            let short = inputs.short(0).iter();
            let short = short.flat_map(|of| {
                of.units.into_iter().zip(
                    integers(&of.columns)
                        .collect::<Vec<_>>()
                        .chunks(32)
                        .map(<[i16]>::to_vec)
                        .collect::<Vec<_>>(),
                )
            });
            let long = inputs.long(0).iter();
            let long = long.map(|of| (of.unit, integers(&of.columns).collect()));
            let all: Vec<(f32, Vec<i16>)> = short.chain(long).collect();
            assert_eq!(all.len(), row.len() / span);
            for (values, (unit, integers)) in row.chunks_exact(span).zip(all) {
                let greatest = values.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
                for (integer, x) in integers.into_iter().zip(values) {
                    let off = f32::from(integer) * unit - x;
                    assert!(off.abs() <= greatest * 1.6e-5, "{x} is off by {off}");
                }
            }
        }
    }

    #[test]
    fn a_value_that_is_not_finite_spoils_its_span_alone() {
        let mut row = [1.0; 64];
        row[40] = f32::INFINITY;
        let mut inputs = Inputs::default();
        inputs.fill(&row, 64, 32);
        let [short] = inputs.short(0) else {
            panic!("four blocks")
        };
        assert!(short.units[0].is_finite() && short.units[1].is_nan());
        let integers: Vec<i16> = integers(&short.columns).collect();
        assert_eq!(integers[32..], [0; 96]);
    }
}

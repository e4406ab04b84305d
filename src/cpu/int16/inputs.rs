//! Rows of activations as 16-bit integers.

use pulp::NullaryFnOnce;

use super::machine::{Columns, SUMS};
use super::panels::{LongPanel, Panels, ShortPanel};
use crate::quant::{PIECE, SHORT};

/// Rows from which on they are those of a prompt.
const MANY: usize = 9;
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
    /// The rows of a prompt, in place of the others.
    panels: (Panels<LongPanel>, Panels<ShortPanel>),
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

    /// The first values of a row.
    #[inline(always)]
    pub(super) fn of(values: &[f32]) -> Self {
        match values.first_chunk() {
            Some(values) => Self::new(values),
            None => *Self::NONE,
        }
    }

    #[inline(always)]
    fn new(values: &[f32; 256]) -> Self {
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
            [even.0[at], odd.0[at]] = *pair;
        }
        [even, odd]
    }
}

impl Inputs {
    /// Converts rows of `columns`, a multiple of the span, which is 32 or 256.
    pub(in crate::cpu) fn fill(&mut self, from: &[f32], columns: usize, span: usize) {
        if from.len() / columns < MANY {
            self.fill_rows(from, columns, span);
        } else {
            self.fill_panels(from, columns, span);
        }
    }

    /// Converts the rows of a prompt.
    pub(super) fn fill_panels(&mut self, from: &[f32], columns: usize, span: usize) {
        self.rows = from.len() / columns;
        self.long.clear();
        self.short.clear();
        let (long, short) = &mut self.panels;
        if span > BLOCK {
            short.clear();
            long.fill(from, columns);
        } else {
            long.clear();
            short.fill(from, columns);
        }
    }

    /// Converts the rows of a step.
    pub(super) fn fill_rows(&mut self, from: &[f32], columns: usize, span: usize) {
        self.panels.0.clear();
        self.panels.1.clear();
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

    pub(super) fn panels(&self) -> &(Panels<LongPanel>, Panels<ShortPanel>) {
        &self.panels
    }

    /// Whether they are those of a prompt.
    pub(super) fn are_panels(&self) -> bool {
        self.panels.0.count() + self.panels.1.count() > 0
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
            ..
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
                *to = Short::of(values);
            }
        }
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

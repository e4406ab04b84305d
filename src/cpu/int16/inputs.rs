//! Rows of activations as 16-bit integers.

use pulp::NullaryFnOnce;

use super::super::dots::eight_in_pairs;
use super::machine::Columns;
use crate::quant::PIECE;

/// The greatest integer.
const MOST: f32 = 32_767.0;
/// 1.5 times 2^23: after an addition, the low bits of the sum hold the rounded number.
const ROUNDER: f32 = 12_582_912.0;

/// Rows of activations.
#[derive(Debug, Default)]
pub(in crate::cpu) struct Inputs {
    /// (rows, columns / 32)
    columns: Vec<Columns>,
    /// The sum of each piece: (rows, columns / 32)
    sums: Vec<[f32; 2]>,
    /// The unit of each span: (rows, columns / span). NaN if one of the span's values is not a number.
    units: Vec<f32>,
    rows: usize,
}

/// The spans of a row that are left.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) columns: &'a [Columns],
    pub(super) sums: &'a [[f32; 2]],
    pub(super) units: &'a [f32],
}

/// A span of a row: `32 * K` columns.
#[derive(Clone, Copy)]
pub(super) struct Span<'a, const K: usize> {
    pub(super) columns: &'a [Columns; K],
    pub(super) sums: &'a [[f32; 2]; K],
    pub(super) unit: f32,
}

impl<const K: usize> Span<'_, K> {
    pub(super) const NONE: Self = Self {
        columns: &[Columns::ZEROS; K],
        sums: &[[0.0; 2]; K],
        unit: 0.0,
    };
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

    #[inline(always)]
    pub(super) fn row(&self, row: usize) -> Row<'_> {
        let (columns, units) = (self.columns.len() / self.rows, self.units.len() / self.rows);
        Row {
            columns: &self.columns[row * columns..][..columns],
            sums: &self.sums[row * columns..][..columns],
            units: &self.units[row * units..][..units],
        }
    }
}

impl<'a> Row<'a> {
    /// Takes a span.
    #[inline(always)]
    pub(super) fn next<const K: usize>(&mut self) -> Option<Span<'a, K>> {
        let (columns, others) = self.columns.split_first_chunk()?;
        let (sums, other_sums) = self.sums.split_first_chunk()?;
        let (unit, units) = self.units.split_first()?;
        (self.columns, self.sums, self.units) = (others, other_sums, units);
        Some(Span {
            columns,
            sums,
            unit: *unit,
        })
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
            columns: integers,
            sums,
            units,
            rows,
        } = inputs;
        *rows = from.len() / columns;
        integers.resize(from.len() / Columns::LEN, Columns::default());
        sums.resize(from.len() / Columns::LEN, [0.0; 2]);
        units.clear();
        let mut parts = integers.iter_mut().zip(sums);
        for span in from.chunks_exact(span) {
            let span = span.as_chunks::<{ Columns::LEN }>().0;
            let (unit, by) = unit(span);
            units.push(unit);
            // The span is first in the zip, so that no element of `parts` is lost at its end.
            for (values, (integers, sums)) in span.iter().zip(parts.by_ref()) {
                let finite = by > 0.0;
                for (integer, x) in integers.0.iter_mut().zip(values) {
                    let scaled = if finite { x * by } else { 0.0 };
                    // The addition rounds, and the low bits hold the result.
                    #[allow(clippy::cast_possible_truncation)] // at most `MOST`
                    let rounded = (scaled + ROUNDER).to_bits() as u16;
                    *integer = rounded.cast_signed();
                }
                for (sum, values) in sums.iter_mut().zip(values.as_chunks::<PIECE>().0) {
                    let mut parts = [0.0; PIECE / 2];
                    for (i, part) in parts.iter_mut().enumerate() {
                        *part = values[i] + values[i + PIECE / 2];
                    }
                    *sum = eight_in_pairs(&parts);
                }
            }
        }
    }
}

/// Returns the unit of a span, and its inverse, which is zero if all integers are.
#[inline(always)]
fn unit(span: &[[f32; Columns::LEN]]) -> (f32, f32) {
    let (mut greatest, mut finite) = ([0.0_f32; Columns::LEN], true);
    for values in span {
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

    #[test]
    fn integers_are_accurate_in_each_span() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut row: Vec<f32> = (0..512).map(|_| random.f32() - 0.5).collect();
        row[300] = 4000.0;
        row[64..96].fill(0.0);
        for span in [32, 256] {
            let mut inputs = Inputs::default();
            inputs.fill(&row, row.len(), span);
            let mut left = inputs.row(0);
            for values in row.chunks_exact(span) {
                let (columns, unit) = if span == 32 {
                    let of = left.next::<1>().expect("a span");
                    (of.columns.as_slice(), of.unit)
                } else {
                    let of = left.next::<8>().expect("a span");
                    (of.columns.as_slice(), of.unit)
                };
                let greatest = values.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
                let integers = columns.iter().flat_map(|columns| columns.0);
                for (integer, x) in integers.zip(values) {
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
        assert!(inputs.units[0].is_finite() && inputs.units[1].is_nan());
        assert_eq!(inputs.columns[1].0, [0; Columns::LEN]);
    }
}

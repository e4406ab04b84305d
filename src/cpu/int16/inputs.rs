//! Rows of activations as 16-bit integers.

use pulp::NullaryFnOnce;

use super::panels::{LongPanel, Panels, ShortPanel};
use super::spans::{BLOCK, Long, Short};
use crate::quant::SHORT;

/// Rows from which on they are those of a prompt.
const MANY: usize = 9;

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

#[cfg(test)]
mod tests {
    use super::super::machine::Columns;
    use super::*;

    /// The integers of columns, in their order.
    fn integers(columns: &[Columns]) -> impl Iterator<Item = i16> {
        columns.as_chunks().0.iter().flat_map(|[even, odd]| {
            let [even, odd]: [[i16; Columns::LEN]; 2] =
                [*even, *odd].map(|of| pulp::cast(of.pairs()));
            let pairs = even.into_iter().zip(odd);
            pairs.flat_map(|(even, odd)| [even, odd])
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

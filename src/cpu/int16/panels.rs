//! The rows of a prompt in panels of sixteen. A vector has the same two columns of each row of a panel, so that a weight is
//! multiplied with sixteen rows at a time.

use pulp::NullaryFnOnce;

use super::machine::{Columns, Pairs, SUMS};
use super::spans::{Long, Short};
use crate::cpu::threads::each;
use crate::quant::{PIECES, SHORT};

/// A number of each row of a panel.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Lanes(pub(super) [f32; SUMS]);

impl Lanes {
    const ZEROS: Self = Self([0.0; SUMS]);
}

/// 256 columns of a panel.
#[derive(Clone, Debug)]
pub(super) struct LongPanel {
    /// The columns of each partial sum, in the order of the weights' `Columns`.
    pub(super) columns: [[Columns; 8]; SUMS],
    pub(super) units: Lanes,
    of_16: [Lanes; PIECES],
    of_32: [Lanes; PIECES / 2],
}

/// Four times 32 columns of a panel.
#[derive(Clone, Debug)]
pub(super) struct ShortPanel {
    /// The columns of each block, those with even numbers first.
    pub(super) columns: [[Columns; SUMS]; SHORT],
    pub(super) units: [Lanes; SHORT],
    /// The sums of each 32 columns.
    pub(super) sums: [Lanes; SHORT],
}

/// Some columns of sixteen rows.
pub(super) trait Panel: Clone + Send {
    const COLUMNS: usize;
    const NONE: Self;

    /// Writes the columns from `first` on of up to sixteen rows. A row may end before the panel does.
    fn fill(&mut self, rows: &[f32], columns: usize, first: usize);
}

impl LongPanel {
    /// The sums of groups of 16 or 32 `columns`.
    #[inline(always)]
    pub(super) fn sums(&self, columns: usize) -> &[Lanes] {
        if columns > PIECES {
            &self.of_32
        } else {
            &self.of_16
        }
    }
}

impl Panel for LongPanel {
    const COLUMNS: usize = 256;
    const NONE: Self = Self {
        columns: [[Columns::ZEROS; 8]; SUMS],
        units: Lanes::ZEROS,
        of_16: [Lanes::ZEROS; PIECES],
        of_32: [Lanes::ZEROS; PIECES / 2],
    };

    #[inline(always)]
    fn fill(&mut self, rows: &[f32], columns: usize, first: usize) {
        let mut integers = [[[0; SUMS]; SUMS]; 8];
        let mut rows = rows.chunks_exact(columns);
        for lane in 0..SUMS {
            // Closures of the standard library are not compiled for the machine's vectors.
            let row = match rows.next() {
                Some(row) => Long::of(&row[first..]),
                None => *Long::NONE,
            };
            for (to, columns) in integers.iter_mut().zip(row.columns) {
                to[lane] = columns.pairs();
            }
            self.units.0[lane] = row.unit;
            for (to, sum) in self.of_16.iter_mut().zip(row.sums(16)) {
                to.0[lane] = *sum;
            }
            for (to, sum) in self.of_32.iter_mut().zip(row.sums(32)) {
                to.0[lane] = *sum;
            }
        }
        for (part, integers) in integers.iter().enumerate() {
            for (to, pairs) in self.columns.iter_mut().zip(transposed(integers)) {
                to[part] = pairs;
            }
        }
    }
}

impl Panel for ShortPanel {
    const COLUMNS: usize = 128;
    const NONE: Self = Self {
        columns: [[Columns::ZEROS; SUMS]; SHORT],
        units: [Lanes::ZEROS; SHORT],
        sums: [Lanes::ZEROS; SHORT],
    };

    #[inline(always)]
    fn fill(&mut self, rows: &[f32], columns: usize, first: usize) {
        let mut integers = [[[0; SUMS]; SUMS]; SHORT];
        let mut rows = rows.chunks_exact(columns);
        for lane in 0..SUMS {
            // As above.
            let row = match rows.next() {
                Some(row) => Short::of(&row[first..]),
                None => *Short::NONE,
            };
            let blocks = in_blocks(row.columns.map(Columns::pairs));
            for (to, pairs) in integers.iter_mut().zip(blocks) {
                to[lane] = pairs;
            }
            for (to, unit) in self.units.iter_mut().zip(row.units) {
                to.0[lane] = unit;
            }
            for (to, sum) in self.sums.iter_mut().zip(row.sums) {
                to.0[lane] = sum;
            }
        }
        for (to, integers) in self.columns.iter_mut().zip(&integers) {
            *to = transposed(integers);
        }
    }
}

/// Of each 32 of 128 columns, those with even numbers, then those with odd ones.
#[inline(always)]
pub(super) fn in_blocks(columns: [Pairs; 4]) -> [Pairs; SHORT] {
    let [even, odd, more_even, more_odd]: [[[i32; SUMS / 2]; 2]; 4] = pulp::cast(columns);
    pulp::cast([
        [even[0], odd[0]],
        [even[1], odd[1]],
        [more_even[0], more_odd[0]],
        [more_even[1], more_odd[1]],
    ])
}

/// Pair `i` of each of sixteen rows becomes element `i`.
#[inline(always)]
fn transposed(rows: &[Pairs; SUMS]) -> [Columns; SUMS] {
    let mut columns = [[0; SUMS]; SUMS];
    for (lane, row) in rows.iter().enumerate() {
        for (to, pair) in columns.iter_mut().zip(row) {
            to[lane] = *pair;
        }
    }
    columns.map(Columns::of_pairs)
}

/// All rows of a prompt.
#[derive(Debug)]
pub(super) struct Panels<P> {
    /// (rows / 16, spans)
    all: Vec<P>,
    spans: usize,
}

impl<P> Default for Panels<P> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            spans: 1,
        }
    }
}

impl<P: Panel> Panels<P> {
    pub(super) fn count(&self) -> usize {
        self.all.len() / self.spans
    }

    /// The panels of a row.
    pub(super) fn spans(&self) -> usize {
        self.spans
    }

    /// Sixteen rows.
    #[inline(always)]
    pub(super) fn rows(&self, index: usize) -> &[P] {
        &self.all[index * self.spans..][..self.spans]
    }

    /// Converts rows of `columns`.
    pub(super) fn fill(&mut self, from: &[f32], columns: usize) {
        let rows = from.chunks(SUMS * columns);
        self.spans = columns.div_ceil(P::COLUMNS);
        self.all.resize(rows.len() * self.spans, P::NONE);
        let arch = pulp::Arch::new();
        each(
            self.all.chunks_exact_mut(self.spans).zip(rows),
            |(panels, rows): (&mut [P], &[f32])| {
                arch.dispatch(Filling {
                    panels,
                    rows,
                    columns,
                });
            },
        );
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
    }
}

struct Filling<'a, P> {
    panels: &'a mut [P],
    rows: &'a [f32],
    columns: usize,
}

impl<P: Panel> NullaryFnOnce for Filling<'_, P> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (index, panel) in self.panels.iter_mut().enumerate() {
            panel.fill(self.rows, self.columns, index * P::COLUMNS);
        }
    }
}

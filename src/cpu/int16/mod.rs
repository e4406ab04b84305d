//! Products of weights whose blocks are integers with rows of activations of 16 bits.
//!
//! Each span of a row of activations, as long as a block of the weight, becomes 16-bit integers with a unit of its own:
//! each value is rounded to 2^-15 of the span's greatest. The products of a span are summed exactly, in 32 bits, and
//! scaled once.
//!
//! There are sixteen partial sums, each of two neighbouring columns in thirty-two. The bits of a product therefore
//! depend neither on the number of rows nor on the machine. `groups` computes the same with 30-bit activations.

mod inputs;
mod machine;
#[cfg(test)]
mod tests;
mod tiles;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::array;
use std::cell::RefCell;
use std::ops::Range;

use pulp::NullaryFnOnce;

pub(super) use self::inputs::Inputs;
use self::inputs::Row;
use self::machine::{Columns, Machine, Portable};
use self::tiles::{Decoded, Tiles, whole};
use super::prefetch::prefetch;
use super::weight::Matrix;
use crate::quant::{PIECE, PIECES, Span};

/// Bytes of weights that are prefetched.
const AHEAD: usize = 2048;
/// Rows of the input from which on a row of the weight is decoded into memory.
const MANY: usize = 9;
/// Rows that are multiplied together if there are no more.
const FEW: usize = 4;

thread_local! {
    /// Decoded rows of a weight, on the thread that multiplies them.
    static DECODED: RefCell<Decoded> = RefCell::default();
}

/// `out[a][b] = weight[first + a] . input[b]`: the weight has blocks, out is (_, rows).
pub(super) fn multiply(weight: &Matrix, first: usize, inputs: &Inputs, out: &mut [f32]) {
    // The factor of a tile's sums has to be worth its multiplications.
    let is_tiled = inputs.rows() >= MANY && weight.span() == Some(PIECE * PIECES);
    // `$together` rows share a decoded block in a step; `$a` rows of the weight share `$b` of a prompt.
    macro_rules! with {
        ($machine:expr, $run:expr, $together:literal, $a:literal, $b:literal) => {
            if !is_tiled {
                $run(Products::<_, $together> {
                    machine: $machine,
                    weight,
                    first,
                    inputs,
                    out,
                })
            } else {
                // Only what is called directly is compiled for the machine's vectors.
                DECODED.with_borrow_mut(|decoded| {
                    $run(Tiles::<_, $a, $b> {
                        machine: $machine,
                        weight,
                        first,
                        inputs,
                        decoded,
                        out,
                    })
                })
            }
        };
    }
    // The numbers are those of the machine's registers.
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(machine) = pulp::x86::V4::try_new() {
            return with!(machine, |run| machine.vectorize(run), 8, 4, 4);
        }
        if let Some(machine) = pulp::x86::V3::try_new() {
            return with!(machine, |run| machine.vectorize(run), 4, 2, 2);
        }
    }
    with!(Portable, NullaryFnOnce::call, 4, 1, 1);
}

/// Some rows of a weight with all rows of the input, `TOGETHER` of them at a time.
struct Products<'a, M, const TOGETHER: usize> {
    machine: M,
    weight: &'a Matrix,
    first: usize,
    inputs: &'a Inputs,
    out: &'a mut [f32],
}

impl<M: Machine, const TOGETHER: usize> NullaryFnOnce for Products<'_, M, TOGETHER> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self {
            machine,
            weight,
            first,
            inputs,
            out,
        } = self;
        let rows = inputs.rows();
        let (all, ahead) = (weight.rows(), AHEAD.div_ceil(weight.row(first).len()));
        for (row, out) in (first..).zip(out.chunks_exact_mut(rows)) {
            if row + ahead < all {
                prefetch(weight.row(row + ahead));
            }
            let mut of = 0..rows;
            while !of.is_empty() {
                // Decoding a block takes longer than products with rows that are not needed.
                let next = match of.len() {
                    1 => {
                        [out[of.start]] = products(machine, (weight, row), inputs, of.start);
                        1
                    }
                    2..=FEW => several::<M, FEW>(machine, (weight, row), inputs, &of, out),
                    _ => several::<M, TOGETHER>(machine, (weight, row), inputs, &of, out),
                };
                of.start += next;
            }
        }
    }
}

/// Multiplies a row of the weight with up to `R` of some rows of the input, and returns their number.
#[inline(always)]
fn several<M: Machine, const R: usize>(
    machine: M,
    weight: (&Matrix, usize),
    inputs: &Inputs,
    rows: &Range<usize>,
    out: &mut [f32],
) -> usize {
    let products = products::<M, R>(machine, weight, inputs, rows.start);
    let count = rows.len().min(R);
    out[rows.start..][..count].copy_from_slice(&products[..count]);
    count
}

/// Multiplies a row of the weight with `R` rows of the input; the last row stands for rows beyond it.
#[inline(always)]
fn products<M: Machine, const R: usize>(
    machine: M,
    (weight, row): (&Matrix, usize),
    inputs: &Inputs,
    first: usize,
) -> [f32; R] {
    let last = inputs.rows() - 1;
    let mut spans: [_; R] = array::from_fn(|r| inputs.row((first + r).min(last)));
    let mut sums = [Partial::new(machine); R];
    weight.spans(
        row,
        #[inline(always)]
        |span| {
            // The length is known when this is compiled, so that loops over it are unrolled.
            if let [integers] = span.integers.as_chunks::<256>().0 {
                add::<M, R, 8>(machine, span, integers.as_chunks().0, &mut spans, &mut sums);
            } else if let [integers] = span.integers.as_chunks::<32>().0 {
                add::<M, R, 1>(machine, span, &[*integers], &mut spans, &mut sums);
            }
        },
    );
    sums.map(|sums| sums.whole(machine))
}

/// The partial sums of a product.
#[derive(Clone, Copy)]
struct Partial<M: Machine> {
    products: M::Totals,
    addends: M::Totals,
    /// The addends of blocks with a single one.
    addend: f32,
}

impl<M: Machine> Partial<M> {
    #[inline(always)]
    fn new(machine: M) -> Self {
        Self {
            products: machine.zeros(),
            addends: machine.zeros(),
            addend: 0.0,
        }
    }

    #[inline(always)]
    fn whole(self, machine: M) -> f32 {
        whole(machine, self.products, self.addends) + self.addend
    }
}

/// Adds the products of a span of `32 * K` columns.
#[inline(always)]
fn add<M: Machine, const R: usize, const K: usize>(
    machine: M,
    span: &Span<'_>,
    integers: &[[i8; Columns::LEN]],
    rows: &mut [Row<'_>; R],
    sums: &mut [Partial<M>; R],
) {
    let Some(integers) = integers.first_chunk::<K>() else {
        return;
    };
    let mut of = [inputs::Span::<K>::NONE; R];
    for r in 0..R {
        if let Some(next) = rows[r].next() {
            of[r] = next;
        }
    }
    let mut products = [machine.no_sums(); R];
    for (at, integers) in integers.iter().enumerate() {
        let mut weights = machine.weights(integers);
        if K > 1 {
            let [first, second] = span.scales(at);
            weights = if span.columns > PIECE {
                machine.scaled(weights, first)
            } else {
                machine.scaled_halves(weights, [first, second])
            };
        }
        for r in 0..R {
            products[r] = machine.add(weights, &of[r].columns[at], products[r]);
        }
    }
    for r in 0..R {
        let scale = span.scale * of[r].unit;
        sums[r].products = machine.total(products[r], scale, sums[r].products);
    }
    let Some(addends) = &span.addends else {
        return;
    };
    for r in 0..R {
        if K == 1 {
            let [first, second] = of[r].sums[0];
            sums[r].addend = addends[0].mul_add(first + second, sums[r].addend);
        } else if let Ok(pieces) = of[r].sums.as_flattened().try_into() {
            sums[r].addends = machine.multiply_add(addends, pieces, sums[r].addends);
        }
    }
}

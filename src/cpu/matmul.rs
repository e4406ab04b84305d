//! Products of quantized matrices with rows of activations.
//!
//! The rows of a step are multiplied with the integers of the weights' blocks, with activations of 16 bits (`int16`) or of
//! 30 (`groups`). So are those of a prompt if activations have 16 bits. Otherwise one row of a prompt is multiplied with
//! weights as they are decoded. For more rows, a few weight rows are decoded into a buffer that fits the nearest cache, and
//! multiplied with every input row.
//!
//! Products are (outputs, rows), so that each thread writes its own memory, and are transposed as they are merged. The
//! bits of a product depend neither on the number of rows, nor on the threads, nor on the machine (`dots`).

use std::cell::RefCell;

use pulp::{Simd, WithSimd};

use super::activation::Gated;
use super::dots::{Dots, StoredDots};
use super::groups;
use super::int16;
use super::precision::Precision;
use super::threads::{each, piece};
use super::weight::Matrix;
use crate::tape::Activation;

/// Outputs that a thread computes at a time.
const BLOCK: usize = 16;
/// Weight rows that are decoded at a time: the rows of the widest tile of products.
const DECODED: usize = 4;
/// Rows of a product that a thread transposes at a time: the floats of a cache line.
const TRANSPOSED: usize = 16;
/// The lengths of blocks of integers.
const SPANS: [usize; 2] = [32, 256];

thread_local! {
    /// Decoded weight rows, as long as the longest so far.
    static BUFFER: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    /// The integers of a step's rows, on the thread that runs its operations.
    static INTEGERS: RefCell<Integers> = RefCell::default();
}

/// Rows as integers.
#[derive(Debug, Default)]
struct Integers {
    family: Family,
    exact: groups::Inputs,
    /// For weights with blocks of 32 and of 256.
    short: [int16::Inputs; 2],
}

/// The family of loops that computes a row: a step multiplies with the integers of blocks, a prompt mostly with values.
/// Their last bits may differ, as on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Step(Precision),
    Prompt(Precision),
}

impl Family {
    const fn precision(self) -> Precision {
        match self {
            Self::Step(precision) | Self::Prompt(precision) => precision,
        }
    }

    /// Whether integers are multiplied.
    fn suits(self, weight: &Matrix) -> bool {
        match self {
            Self::Step(_) | Self::Prompt(Precision::I16) => weight.span().is_some(),
            Self::Prompt(Precision::F32) => false,
        }
    }
}

impl Default for Family {
    fn default() -> Self {
        Self::Prompt(Precision::F32)
    }
}

/// Computes `product = weight input^T` for each weight: input is (rows, columns), a product (outputs, rows).
pub(super) fn multiply(
    family: Family,
    weights: &[&Matrix],
    input: &[f32],
    rows: usize,
    product: &mut [f32],
) {
    let outputs = product.len() / rows;
    let block = piece(outputs, BLOCK);
    let mut pieces = Vec::with_capacity(outputs.div_ceil(block) + weights.len());
    let mut rest = product;
    for weight in weights {
        let (own, others) = rest.split_at_mut(weight.rows() * rows);
        let firsts = (0..).step_by(block);
        pieces.extend(
            firsts
                .zip(own.chunks_mut(block * rows))
                .map(|(first, out)| (*weight, first, out)),
        );
        rest = others;
    }
    with_input(family, weights, input, rows, |input| {
        each(
            pieces.into_iter(),
            |(weight, first, out): (&Matrix, usize, &mut [f32])| {
                input.multiply(weight, first, out);
            },
        );
    });
}

/// Computes `product = activation(gate input^T) * (up input^T)` with shapes as in `multiply`; `gates` has the length of the
/// product.
pub(super) fn gate_up(
    family: Family,
    gate: &Matrix,
    up: &Matrix,
    (input, rows): (&[f32], usize),
    activation: Activation,
    (gates, product): (&mut [f32], &mut [f32]),
) {
    let arch = pulp::Arch::new();
    let block = piece(product.len() / rows, BLOCK);
    let gates = gates.chunks_mut(block * rows);
    let pieces = gates.zip(product.chunks_mut(block * rows)).enumerate();
    with_input(family, &[gate, up], input, rows, |input| {
        each(
            pieces,
            |(index, (gates, out)): (usize, (&mut [f32], &mut [f32]))| {
                input.multiply(gate, index * block, gates);
                input.multiply(up, index * block, out);
                arch.dispatch(Gated {
                    gates,
                    activation,
                    out,
                });
            },
        );
    });
}

/// Multiplies values by the activations of gates.
pub(super) fn gate(gates: &[f32], activation: Activation, out: &mut [f32]) {
    let (piece, arch) = (piece(out.len(), BLOCK), pulp::Arch::new());
    each(
        gates.chunks(piece).zip(out.chunks_mut(piece)),
        |(gates, out): (&[f32], &mut [f32])| {
            arch.dispatch(Gated {
                gates,
                activation,
                out,
            });
        },
    );
}

/// Rows that weights are multiplied with.
#[derive(Clone, Copy)]
struct Input<'a> {
    values: &'a [f32],
    rows: usize,
    /// The input as integers, for weights that have groups, in a step.
    integers: Option<&'a Integers>,
}

/// Prepares the input for the weights of a family.
fn with_input(
    family: Family,
    weights: &[&Matrix],
    values: &[f32],
    rows: usize,
    run: impl FnOnce(Input<'_>),
) {
    if !weights.iter().any(|weight| family.suits(weight)) {
        return run(Input {
            values,
            rows,
            integers: None,
        });
    }
    INTEGERS.with_borrow_mut(|integers| {
        integers.fill(family, weights, values);
        run(Input {
            values,
            rows,
            integers: Some(integers),
        });
    });
}

impl Integers {
    /// Converts rows for all weights with blocks.
    fn fill(&mut self, family: Family, weights: &[&Matrix], values: &[f32]) {
        self.family = family;
        let columns = weights[0].columns();
        let suiting = || weights.iter().filter(|weight| family.suits(weight));
        match family.precision() {
            Precision::F32 => self.exact.fill(values, columns),
            Precision::I16 => {
                for (inputs, span) in self.short.iter_mut().zip(SPANS) {
                    if suiting().any(|weight| weight.span() == Some(span)) {
                        inputs.fill(values, columns, span);
                    }
                }
            }
        }
    }

    fn multiply(&self, weight: &Matrix, first: usize, out: &mut [f32]) {
        let [of_32, of_256] = &self.short;
        match self.family.precision() {
            Precision::F32 => groups::multiply(weight, first, &self.exact, out),
            Precision::I16 if weight.span() == Some(SPANS[0]) => {
                int16::multiply(weight, first, of_32, out);
            }
            Precision::I16 => int16::multiply(weight, first, of_256, out),
        }
    }
}

impl Input<'_> {
    /// Multiplies a thread's share of a product, from an output on.
    fn multiply(self, weight: &Matrix, first: usize, out: &mut [f32]) {
        let Self {
            values,
            rows,
            integers,
        } = self;
        if let Some(integers) = integers.filter(|integers| integers.family.suits(weight)) {
            return integers.multiply(weight, first, out);
        }
        let arch = pulp::Arch::new();
        if rows == 1 && !weight.has_groups() {
            return arch.dispatch(StoredDots {
                weight,
                first,
                input: values,
                out,
            });
        }
        let columns = weight.columns();
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < DECODED * columns {
                buffer.resize(DECODED * columns, 0.0);
            }
            for (index, out) in out.chunks_mut(DECODED * rows).enumerate() {
                arch.dispatch(Outputs {
                    weight,
                    first: first + index * DECODED,
                    input: values,
                    buffer: &mut buffer[..out.len() / rows * columns],
                    out,
                });
            }
        });
    }
}

/// Calls `merge(out, product, output)` for each element: product is (outputs, rows), out (rows, outputs).
pub(super) fn transpose(
    product: &[f32],
    rows: usize,
    out: &mut [f32],
    merge: impl Fn(&mut f32, f32, usize) + Sync,
) {
    let outputs = product.len() / rows;
    each(
        out[..outputs * rows]
            .chunks_mut(TRANSPOSED * outputs)
            .enumerate(),
        |(block, out): (usize, &mut [f32])| {
            let first = block * TRANSPOSED;
            let count = out.len() / outputs;
            for (output, products) in product.chunks_exact(rows).enumerate() {
                for (row, product) in products[first..first + count].iter().enumerate() {
                    merge(&mut out[row * outputs + output], *product, output);
                }
            }
        },
    );
}

/// A few outputs for all rows. This is a type because only code that is inlined into `with_simd` is compiled for the
/// machine's vector instructions.
struct Outputs<'a> {
    weight: &'a Matrix,
    first: usize,
    input: &'a [f32],
    /// Room for as many decoded weight rows as there are outputs.
    buffer: &'a mut [f32],
    out: &'a mut [f32],
}

impl WithSimd for Outputs<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let columns = self.weight.columns();
        for (index, row) in self.buffer.chunks_exact_mut(columns).enumerate() {
            self.weight.dequantize_row(self.first + index, row);
        }
        Dots {
            left: self.buffer,
            right: self.input,
            columns,
            out: self.out,
        }
        .with_simd(simd);
    }
}

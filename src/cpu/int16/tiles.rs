//! Products with the rows of a prompt: some rows of the weight are decoded once, and multiplied with every row.
//!
//! A vector has one sum of each of sixteen rows of the prompt, and each pair of weights is multiplied with all of them. The
//! sums of a tile are in registers while the columns of a block are added.
#![allow(clippy::needless_range_loop)] // most loops are over several arrays

use std::hint::black_box;

use pulp::NullaryFnOnce;

use super::decoded::{Decoded, PARTS};
use super::inputs::Inputs;
use super::machine::{Machine, SUMS};
use super::panels::{LongPanel, Panel, Panels, ShortPanel};
use crate::cpu::weight::Matrix;
use crate::quant::SHORT;

/// Integers that are decoded at a time: about as many as the second cache has room for next to a few panels.
const DECODED: usize = 1 << 17;

/// Some rows of a weight with all rows of the input: tiles of `A` of the weight and `B` panels of the input.
pub(super) struct Tiles<'a, M, const A: usize, const B: usize> {
    pub(super) machine: M,
    pub(super) weight: &'a Matrix,
    pub(super) first: usize,
    pub(super) inputs: &'a Inputs,
    pub(super) decoded: &'a mut Decoded,
    pub(super) out: &'a mut [f32],
}

impl<M: Machine, const A: usize, const B: usize> NullaryFnOnce for Tiles<'_, M, A, B> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self {
            machine,
            weight,
            first,
            inputs,
            decoded,
            out,
        } = self;
        let (long, short) = inputs.panels();
        let is_long = weight.span() == Some(LongPanel::COLUMNS);
        let (spans, columns) = if is_long {
            (long.spans(), LongPanel::COLUMNS)
        } else {
            (short.spans(), ShortPanel::COLUMNS)
        };
        let rows = inputs.rows();
        let together = (DECODED / (A * spans * columns)).max(1) * A;
        for (index, out) in out.chunks_mut(together * rows).enumerate() {
            // All formats are unpacked here. For panels of both kinds the compiler would do its longest work twice.
            let of = (first + index * together, out.len() / rows);
            decoded.fill(machine, weight, of, (A, spans));
            if is_long {
                all_panels::<M, _, A, B>(machine, decoded, long, rows, out);
            } else {
                all_panels::<M, _, A, B>(machine, decoded, short, rows, out);
            }
        }
    }
}

/// The products of decoded rows with all panels.
#[inline(always)]
fn all_panels<M: Machine, P: Multiplied<M>, const A: usize, const B: usize>(
    machine: M,
    decoded: &Decoded,
    panels: &Panels<P>,
    rows: usize,
    out: &mut [f32],
) {
    let mut panel = 0;
    while panel < panels.count() {
        if panel + B <= panels.count() {
            bands::<M, P, A, B>(machine, decoded, panels, (panel, rows), out);
            panel += B;
        } else {
            bands::<M, P, A, 1>(machine, decoded, panels, (panel, rows), out);
            panel += 1;
        }
    }
}

/// The products of all bands with `B` panels from `panel` on.
#[inline(always)]
fn bands<M: Machine, P: Multiplied<M>, const A: usize, const B: usize>(
    machine: M,
    decoded: &Decoded,
    panels: &Panels<P>,
    (panel, rows): (usize, usize),
    out: &mut [f32],
) {
    let mut right = [panels.rows(panel); B];
    for b in 1..B {
        right[b] = panels.rows(panel + b);
    }
    let first = panel * SUMS;
    for (band, out) in out.chunks_mut(A * rows).enumerate() {
        let products = P::tile::<A, B>(machine, decoded, band, right);
        for (out, products) in out.chunks_exact_mut(rows).zip(products) {
            for (out, products) in out[first..].chunks_mut(SUMS).zip(products) {
                out.copy_from_slice(&products[..out.len()]);
            }
        }
    }
}

/// A panel that is multiplied with decoded rows.
trait Multiplied<M: Machine>: Panel {
    /// The products of a band of `A` rows.
    fn tile<const A: usize, const B: usize>(
        machine: M,
        decoded: &Decoded,
        band: usize,
        panels: [&[Self]; B],
    ) -> [[[f32; SUMS]; B]; A];
}

/// The part of a band in an array of all bands.
#[inline(always)]
fn of_band<T, const A: usize>(all: &[T], band: usize, spans: usize) -> &[[T; A]] {
    let blocks = all.as_chunks().0;
    blocks
        .get(band * spans..(band + 1) * spans)
        .unwrap_or_default()
}

impl<M: Machine> Multiplied<M> for LongPanel {
    #[inline(always)]
    fn tile<const A: usize, const B: usize>(
        machine: M,
        decoded: &Decoded,
        band: usize,
        panels: [&[Self]; B],
    ) -> [[[f32; SUMS]; B]; A] {
        let spans = panels[0].len();
        let weights = of_band::<_, A>(&decoded.long, band, spans);
        let scales = of_band::<_, A>(&decoded.scales, band, spans);
        let addends = of_band::<_, A>(&decoded.addends, band, spans);
        // The compiler fuses products with their addition only if a sum has one of them in a loop. It does not unroll one
        // with an unknown number.
        let parts = black_box(PARTS);
        let mut totals = [[[machine.zeros(); B]; A]; SUMS];
        let mut quarters = [[[machine.zeros(); B]; A]; SHORT];
        // Small products of four partial sums fit in one.
        let joined = if decoded.are_small { SHORT } else { 1 };
        for span in 0..spans {
            let mut right = [&panels[0][span]; B];
            for b in 1..B {
                right[b] = &panels[b][span];
            }
            let mut by = [[machine.zeros(); B]; A];
            for a in 0..A {
                for b in 0..B {
                    by[a][b] = machine.multiply(&right[b].units.0, scales[span][a]);
                }
            }
            for first in 0..SUMS / joined {
                let mut sums = [[machine.no_sums(); B]; A];
                for sum in (first..SUMS).step_by(SUMS / joined) {
                    for part in 0..parts {
                        let part = part % PARTS;
                        for a in 0..A {
                            let pair = machine.repeated(weights[span][a][part][sum]);
                            for b in 0..B {
                                let columns = &right[b].columns[sum][part];
                                sums[a][b] = machine.add(pair, columns, sums[a][b]);
                            }
                        }
                    }
                }
                let totals = if joined > 1 {
                    &mut quarters[first % SHORT]
                } else {
                    &mut totals[first]
                };
                for a in 0..A {
                    for b in 0..B {
                        totals[a][b] = machine.total(sums[a][b], by[a][b], totals[a][b]);
                    }
                }
            }
            if addends.is_empty() {
                continue;
            }
            for group in 0..right[0].sums(decoded.group).len() {
                let totals = &mut totals[group];
                for b in 0..B {
                    let columns = machine.totals(&right[b].sums(decoded.group)[group].0);
                    for a in 0..A {
                        let addend = machine.splat(addends[span][a][group]);
                        totals[a][b] = machine.multiply_add(addend, columns, totals[a][b]);
                    }
                }
            }
        }
        let long = in_pairs(machine, totals);
        let short = in_pairs(machine, quarters);
        products(machine, &long, &short)
    }
}

impl<M: Machine> Multiplied<M> for ShortPanel {
    #[inline(always)]
    fn tile<const A: usize, const B: usize>(
        machine: M,
        decoded: &Decoded,
        band: usize,
        panels: [&[Self]; B],
    ) -> [[[f32; SUMS]; B]; A] {
        let spans = panels[0].len();
        let weights = of_band::<_, A>(&decoded.short, band, spans);
        let scales = of_band::<_, A>(&decoded.short_scales, band, spans);
        let addends = of_band::<_, A>(&decoded.short_addends, band, spans);
        // As above.
        let pairs = black_box(SUMS);
        let mut totals = [[[machine.zeros(); B]; A]; SHORT];
        for span in 0..spans {
            let mut right = [&panels[0][span]; B];
            for b in 1..B {
                right[b] = &panels[b][span];
            }
            for block in 0..SHORT {
                let mut sums = [[machine.no_sums(); B]; A];
                for pair in 0..pairs {
                    let pair = pair % SUMS;
                    for a in 0..A {
                        let weights = machine.repeated(weights[span][a][block][pair]);
                        for b in 0..B {
                            let columns = &right[b].columns[block][pair];
                            sums[a][b] = machine.add(weights, columns, sums[a][b]);
                        }
                    }
                }
                let totals = &mut totals[block];
                for b in 0..B {
                    let units = &right[b].units[block].0;
                    for a in 0..A {
                        let by = machine.multiply(units, scales[span][a][block]);
                        totals[a][b] = machine.total(sums[a][b], by, totals[a][b]);
                    }
                    if addends.is_empty() {
                        continue;
                    }
                    let columns = machine.totals(&right[b].sums[block].0);
                    for a in 0..A {
                        let addend = machine.splat(addends[span][a][block]);
                        totals[a][b] = machine.multiply_add(addend, columns, totals[a][b]);
                    }
                }
            }
        }
        let none = [[machine.zeros(); B]; A];
        products(machine, &none, &in_pairs(machine, totals))
    }
}

/// The sums in pairs, each with the one half a length further, until one is left.
#[inline(always)]
fn in_pairs<M: Machine, const A: usize, const B: usize, const N: usize>(
    machine: M,
    mut totals: [[[M::Totals; B]; A]; N],
) -> [[M::Totals; B]; A] {
    let mut half = N / 2;
    while half > 0 {
        for sum in 0..half {
            for a in 0..A {
                for b in 0..B {
                    let (left, right) = (totals[sum][a][b], totals[sum + half][a][b]);
                    totals[sum][a][b] = machine.plus(left, right);
                }
            }
        }
        half /= 2;
    }
    totals[0]
}

#[inline(always)]
fn products<M: Machine, const A: usize, const B: usize>(
    machine: M,
    long: &[[M::Totals; B]; A],
    short: &[[M::Totals; B]; A],
) -> [[[f32; SUMS]; B]; A] {
    let mut products = [[[0.0; SUMS]; B]; A];
    for a in 0..A {
        for b in 0..B {
            products[a][b] = machine.numbers(machine.plus(long[a][b], short[a][b]));
        }
    }
    products
}

//! Products in every format: their bits, whatever the number of rows, and their accuracy.

use std::sync::Arc;

use memmap2::MmapMut;

use super::super::weight::Matrix;
use super::machine::Machine;
use super::*;
use crate::quant::Format;
use crate::quant::random::{Random, matrix};

const COLUMNS: usize = 768;
/// More rows than a tile has, and a rest.
const OUTPUTS: usize = 7;
/// Two panels of a prompt and a part of a third.
const ROWS: usize = 44;

fn weight(format: Format, columns: usize) -> Matrix {
    weight_of(format, columns, &matrix(3, format, OUTPUTS, columns))
}

fn weight_of(format: Format, columns: usize, bytes: &[u8]) -> Matrix {
    let mut map = MmapMut::map_anon(bytes.len()).expect("memory");
    map.copy_from_slice(bytes);
    let map = Arc::new(map.make_read_only().expect("memory"));
    Matrix::new(format, columns, &map, 0..bytes.len())
}

/// (outputs, rows)
fn products(weight: &Matrix, values: &[f32]) -> Vec<f32> {
    let mut inputs = Inputs::default();
    let span = weight.span().expect("blocks");
    inputs.fill(values, weight.columns(), span);
    let mut out = vec![0.0; OUTPUTS * inputs.rows()];
    multiply(weight, 0, &inputs, &mut out);
    out
}

fn each_format(check: impl Fn(Format, &Matrix, &[f32])) {
    for format in Format::ALL {
        let weight = weight(format, COLUMNS);
        if weight.span().is_some() {
            check(format, &weight, &Random::new(5).normals(ROWS * COLUMNS));
        }
    }
}

/// A prompt's tiles have the bits of a step's rows, and these do not depend on their number.
#[test]
fn bits_do_not_depend_on_the_number_of_rows() {
    each_format(|format, weight, values| {
        let together = products(weight, values);
        for number in [1, 3, 8] {
            for (index, rows) in values.chunks_exact(number * COLUMNS).enumerate() {
                let alone = products(weight, rows);
                for (output, alone) in alone.chunks_exact(number).enumerate() {
                    let of_all = &together[output * ROWS + index * number..][..number];
                    let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect();
                    let [alone, of_all]: [Vec<u32>; 2] = [bits(alone), bits(of_all)];
                    assert_eq!(alone, of_all, "{format:?}: output {output}, {number} rows");
                }
            }
        }
    });
}

/// The products of a step's rows and those of a prompt, on a machine.
fn bits_of<M: Machine>(machine: M, weight: &Matrix, values: &[f32]) -> Vec<u32> {
    let (columns, span) = (weight.columns(), weight.span().expect("blocks"));
    let mut inputs = Inputs::default();
    inputs.fill_rows(values, columns, span);
    let mut both = vec![0.0; 2 * OUTPUTS * inputs.rows()];
    let (step, prompt) = both.split_at_mut(OUTPUTS * inputs.rows());
    Products::<M, 4> {
        machine,
        weight,
        first: 0,
        inputs: &inputs,
        out: step,
    }
    .call();
    inputs.fill_panels(values, columns, span);
    Tiles::<M, 2, 2> {
        machine,
        weight,
        first: 0,
        inputs: &inputs,
        decoded: &mut Decoded::default(),
        out: prompt,
    }
    .call();
    both.into_iter().map(f32::to_bits).collect()
}

#[test]
fn all_machines_give_the_same_bits() {
    let check = |format, weight: &Matrix, values: &[f32]| {
        let portable = bits_of(Portable, weight, values);
        let (step, prompt) = portable.split_at(portable.len() / 2);
        assert_eq!(step, prompt, "{format:?}");
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(machine) = pulp::x86::V3::try_new() {
                assert_eq!(portable, bits_of(machine, weight, values), "{format:?}");
            }
            if let Some(machine) = pulp::x86::V4::try_new() {
                assert_eq!(portable, bits_of(machine, weight, values), "{format:?}");
            }
        }
        #[cfg(target_arch = "aarch64")]
        if let Some(machine) = pulp::aarch64::Neon::try_new() {
            assert_eq!(portable, bits_of(machine, weight, values), "{format:?}");
        }
    };
    each_format(|format, weight, values| {
        check(format, weight, &values[..19 * COLUMNS]);
        // The greatest sums, which just fit.
        check(format, weight, &[-1.0; COLUMNS]);
    });
}

/// Short blocks are multiplied in fours.
#[test]
fn a_row_may_end_after_any_block() {
    let columns = 5 * 32;
    let values = Random::new(6).normals(ROWS * columns);
    for format in [Format::Q4_0, Format::Q5_1, Format::Q8_0] {
        check_accuracy(format, &weight(format, columns), &values);
    }
}

/// The integers of these blocks are -32, and their factors -128: the greatest sums of products just fit in 32 bits.
#[test]
fn the_greatest_sums_fit() {
    let mut block = [0; 210];
    block[192..208].fill(0x80);
    block[208..].copy_from_slice(&half::f16::ONE.to_le_bytes());
    let bytes = block.repeat(OUTPUTS * COLUMNS / 256);
    let weight = weight_of(Format::Q6_K, COLUMNS, &bytes);
    for product in products(&weight, &vec![-1.0; 12 * COLUMNS]) {
        let exact = -4096.0 * 768.0;
        assert!((product - exact).abs() < 1.0, "{product} is not {exact}");
    }
}

#[test]
fn products_are_accurate() {
    each_format(check_accuracy);
}

fn check_accuracy(format: Format, weight: &Matrix, values: &[f32]) {
    let products = products(weight, values);
    let mut decoded = vec![0.0; weight.columns()];
    for (output, products) in products.chunks_exact(ROWS).enumerate() {
        weight.dequantize_row(output, &mut decoded);
        for (row, product) in values.chunks_exact(weight.columns()).zip(products) {
            let pairs = decoded.iter().zip(row);
            let exact: f64 = pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            // The products are about normal, and each of 768 columns is off by up to 2^-16 of the greatest.
            let off = (f64::from(*product) - exact).abs();
            assert!(off < 3e-4, "{format:?}: {product} is not {exact}");
        }
    }
}

/// Multiplies as often as `GANGLION_PRODUCTS` says, for `tests/bench/instructions.sh`, which counts the instructions.
#[test]
fn products_are_counted() {
    let Ok(asked) = std::env::var("GANGLION_PRODUCTS") else {
        return;
    };
    let asked: Vec<&str> = asked.split(' ').collect();
    let [name, rows, times] = asked[..] else {
        panic!("not FORMAT ROWS TIMES: {asked:?}");
    };
    let [rows, times]: [usize; 2] = [rows, times].map(|number| number.parse().expect("a number"));
    let mut formats = Format::ALL.into_iter();
    let format = formats.find(|format| format!("{format:?}") == name);
    let format = format.expect("a format");
    let (outputs, columns) = (64, 1024);
    let weight = weight_of(format, columns, &matrix(3, format, outputs, columns));
    let mut inputs = Inputs::default();
    let values = Random::new(5).normals(rows * columns);
    inputs.fill(&values, columns, weight.span().expect("blocks"));
    let mut out = vec![0.0; outputs * rows];
    for _ in 0..times {
        multiply(&weight, 0, &inputs, &mut out);
    }
}

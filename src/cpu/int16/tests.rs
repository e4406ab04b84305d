//! Products in every format: their bits, whatever the number of rows, and their accuracy.

use std::sync::Arc;

use memmap2::MmapMut;

use super::super::weight::Matrix;
use super::*;
use crate::quant::Format;
use crate::quant::random::{Random, matrix};

const COLUMNS: usize = 768;
/// More rows than a tile has, and a rest.
const OUTPUTS: usize = 7;
/// As many as a prompt's, and a rest.
const ROWS: usize = 22;

fn weight(format: Format) -> Matrix {
    let bytes = matrix(3, format, OUTPUTS, COLUMNS);
    let mut map = MmapMut::map_anon(bytes.len()).expect("memory");
    map.copy_from_slice(&bytes);
    let map = Arc::new(map.make_read_only().expect("memory"));
    Matrix::new(format, COLUMNS, &map, 0..bytes.len())
}

/// (outputs, rows)
fn products(weight: &Matrix, values: &[f32]) -> Vec<f32> {
    let mut inputs = Inputs::default();
    let span = weight.span().expect("blocks");
    inputs.fill(values, COLUMNS, span);
    let mut out = vec![0.0; OUTPUTS * inputs.rows()];
    multiply(weight, 0, &inputs, &mut out);
    out
}

fn each_format(check: impl Fn(Format, &Matrix, &[f32])) {
    for format in Format::ALL {
        let weight = weight(format);
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

#[test]
fn products_are_accurate() {
    each_format(|format, weight, values| {
        let products = products(weight, values);
        let mut decoded = vec![0.0; COLUMNS];
        for (output, products) in products.chunks_exact(ROWS).enumerate() {
            weight.dequantize_row(output, &mut decoded);
            for (row, product) in values.chunks_exact(COLUMNS).zip(products) {
                let pairs = decoded.iter().zip(row);
                let exact: f64 = pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                // The products are about normal, and each of 768 columns is off by up to 2^-16 of the greatest.
                let off = (f64::from(*product) - exact).abs();
                assert!(off < 3e-4, "{format:?}: {product} is not {exact}");
            }
        }
    });
}

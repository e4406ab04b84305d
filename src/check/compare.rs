//! The bound of differences: |delta| <= 4 ulp of the output's type + 1e-4 x rms of the reference's row.

use crate::quant::DType;

const ULPS: f64 = 4.0;
const OF_RMS: f64 = 1e-4;

/// The greatest difference from the reference.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Worst {
    /// |delta| in units of the bound; infinite if either value is not a number.
    pub ratio: f64,
    pub row: usize,
    pub column: usize,
    pub value: f32,
    pub reference: f32,
}

/// Compares rows of `columns` values.
#[must_use]
pub fn worst(reference: &[f32], values: &[f32], columns: usize, dtype: DType) -> Worst {
    worst_beside(reference, values, &[], columns, dtype)
}

/// The same. Of each difference, `allowed` does not count; there may be fewer of those.
pub(super) fn worst_beside(
    reference: &[f32],
    values: &[f32],
    allowed: &[f64],
    columns: usize,
    dtype: DType,
) -> Worst {
    let mut worst = Worst::default();
    let rows = reference.chunks(columns).zip(values.chunks(columns));
    for (row, (references, values)) in rows.enumerate() {
        let rms = root_mean_square(references);
        for (column, (&reference, &value)) in references.iter().zip(values).enumerate() {
            let allowed = allowed.get(row * columns + column).copied();
            let apart = (f64::from(value) - f64::from(reference)).abs();
            // NaN stays one.
            let delta = if apart.is_nan() {
                apart
            } else {
                (apart - allowed.unwrap_or_default()).max(0.0)
            };
            let mut ratio = delta / (ULPS * ulp(dtype, reference) + OF_RMS * rms);
            if ratio.is_nan() {
                ratio = f64::INFINITY;
            }
            if ratio > worst.ratio {
                worst = Worst {
                    ratio,
                    row,
                    column,
                    value,
                    reference,
                };
            }
        }
    }
    worst
}

#[allow(clippy::cast_precision_loss)] // widths are far below 2^52
fn root_mean_square(values: &[f32]) -> f64 {
    let squares: f64 = values.iter().map(|value| f64::from(*value).powi(2)).sum();
    (squares / values.len().max(1) as f64).sqrt()
}

/// The distance between neighbours of a type at `value`.
pub(super) fn ulp(dtype: DType, value: f32) -> f64 {
    let (least, digits) = match dtype {
        DType::F32 => (-126, 23),
        DType::F16 => (-14, 10),
        DType::BF16 => (-126, 7),
    };
    // The exponent of an f32; that of a subnormal is below any of `least`.
    let exponent = (value.to_bits() >> 23 & 0xff).cast_signed() - 127;
    2.0_f64.powi(exponent.max(least) - digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::float_cmp)] // powers of two are exact
    fn ulp_is_the_distance_to_the_next_number() {
        for value in [1.0_f32, 1.99, -3.0, 1e-3, 6e-5, 3e-6, 0.0, 60000.0] {
            let f16 = half::f16::from_f32(value.abs());
            let next = half::f16::from_bits(f16.to_bits() + 1);
            assert_eq!(
                ulp(DType::F16, f16.to_f32()),
                next.to_f64() - f16.to_f64(),
                "{value}"
            );
            let bf16 = half::bf16::from_f32(value.abs());
            let next = half::bf16::from_bits(bf16.to_bits() + 1);
            assert_eq!(
                ulp(DType::BF16, bf16.to_f32()),
                next.to_f64() - bf16.to_f64(),
                "{value}"
            );
            let next = f32::from_bits(value.abs().to_bits() + 1);
            assert_eq!(
                ulp(DType::F32, value),
                f64::from(next) - f64::from(value.abs()),
                "{value}"
            );
        }
    }
}

//! The exponential function, as a loop over many can have it: without a branch, a table or a call.

/// Beyond these it overflows, or is less than the least normal number.
const LEAST: f32 = -87.0;
const GREATEST: f32 = 88.0;
/// 1.5 times 2^23: what is added to it is rounded to a whole number.
const ROUNDER: f32 = 12_582_912.0;
/// ln 2, in a part of few bits, whose products with small whole numbers are exact, and the rest.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// e to the power of x, within 2 units of the last place; of x beyond -87 or 88, that of the limit; NaN of NaN.
///
/// x = n ln 2 + r with |r| <= ln 2 / 2, and e^r by its series to the seventh power.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // Not `clamp` nor `max`: of NaN and a number, these may take the number.
    let x = if x < LEAST { LEAST } else { x };
    let x = if x > GREATEST { GREATEST } else { x };
    let rounded = x.mul_add(std::f32::consts::LOG2_E, ROUNDER);
    let n = rounded - ROUNDER;
    let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, x));
    let mut series = 1.0 / 5040.0;
    for factorial in [720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0] {
        series = r.mul_add(series, 1.0 / factorial);
    }
    // The whole number is in the low bits; the exponent of 2^n has a bias of 127.
    let power = rounded.to_bits().wrapping_add(127) << 23;
    series * f32::from_bits(power)
}

#[cfg(test)]
mod tests {
    use super::exp;

    #[test]
    #[allow(clippy::cast_precision_loss)] // steps are below 2^24
    fn it_is_within_two_units_of_the_last_place() {
        for step in -870_000..=880_000 {
            let x = step as f32 / 1e4;
            let exact = f64::from(x).exp();
            let error = (f64::from(exp(x)) - exact).abs() / exact;
            assert!(error <= 2.0 * f64::from(f32::EPSILON), "{x}: {error}");
        }
        assert!(exp(f32::NAN).is_nan());
        assert!(exp(f32::NEG_INFINITY) < 2e-38 && exp(f32::INFINITY) > 1e38);
    }
}

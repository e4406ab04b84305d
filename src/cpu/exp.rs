//! The exponential function for vectorized loops: without a branch, a table or a call.

/// Below this the result is less than the least normal number, and above `MOST` it overflows.
const LEAST: f32 = -87.0;
const GREATEST: f32 = 88.0;
/// 1.5 times 2^23: adding it rounds a number to an integer.
const ROUNDER: f32 = 12_582_912.0;
/// ln 2 as a part with few bits, whose products with small integers are exact, and the rest.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// e to the power of x, within 2 units of the last place. x is limited to -87 and 88; the result of NaN is NaN.
///
/// x = n ln 2 + r with |r| <= ln 2 / 2, and e^r is its series to the seventh power.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // `clamp` and `max` are not used: for NaN and a number, they may return the number.
    let x = if x < LEAST { LEAST } else { x };
    let x = if x > GREATEST { GREATEST } else { x };
    let rounded = x.mul_add(std::f32::consts::LOG2_E, ROUNDER);
    let n = rounded - ROUNDER;
    let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, x));
    let mut series = 1.0 / 5040.0;
    for factorial in [720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0] {
        series = r.mul_add(series, 1.0 / factorial);
    }
    // The low bits hold the integer; the exponent of 2^n has a bias of 127.
    let power = rounded.to_bits().wrapping_add(127) << 23;
    series * f32::from_bits(power)
}

#[cfg(test)]
mod tests {
    use super::exp;

    #[test]
    #[allow(clippy::cast_precision_loss)] // steps are below 2^24
    fn exp_is_within_two_units_of_the_last_place() {
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

//! Activation functions for vectorized loops: without a branch, a table or a call.

use super::exp::exp;
use crate::tape::Activation;

/// Replaces values by their activations.
pub(super) struct Activated<'a> {
    pub(super) activation: Activation,
    pub(super) values: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Activated<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let values = self.values.iter_mut();
        match self.activation {
            Activation::Silu => values.for_each(|x| *x = silu(*x)),
            Activation::GeluTanh => values.for_each(|x| *x = gelu_tanh(*x)),
            Activation::SquaredRelu => values.for_each(|x| *x = squared_relu(*x)),
            Activation::Sigmoid => values.for_each(|x| *x = sigmoid(*x)),
            Activation::Gelu => values.for_each(|x| *x = gelu(*x)),
        }
    }
}

/// `out = activation(gates) * out`
pub(super) struct Gated<'a> {
    pub(super) gates: &'a [f32],
    pub(super) activation: Activation,
    pub(super) out: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Gated<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let pairs = self.out.iter_mut().zip(self.gates);
        match self.activation {
            Activation::Silu => pairs.for_each(|(out, gate)| *out *= silu(*gate)),
            Activation::GeluTanh => pairs.for_each(|(out, gate)| *out *= gelu_tanh(*gate)),
            Activation::SquaredRelu => pairs.for_each(|(out, gate)| *out *= squared_relu(*gate)),
            Activation::Sigmoid => pairs.for_each(|(out, gate)| *out *= sigmoid(*gate)),
            Activation::Gelu => pairs.for_each(|(out, gate)| *out *= gelu(*gate)),
        }
    }
}

#[inline(always)]
fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

#[inline(always)]
fn squared_relu(x: f32) -> f32 {
    x.max(0.0) * x.max(0.0)
}

#[inline(always)]
fn gelu_tanh(x: f32) -> f32 {
    const SLOPE: f32 = 2.0 * std::f32::consts::FRAC_2_SQRT_PI * std::f32::consts::FRAC_1_SQRT_2;
    x / (1.0 + exp(-SLOPE * (x + 0.044_715 * x * x * x)))
}

#[inline(always)]
fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

/// The error function within 4e-7: a quotient of two polynomials, as in Eigen.
#[inline(always)]
fn erf(x: f32) -> f32 {
    /// Beyond this the result is 1 in f32.
    const GREATEST: f32 = 4.0;
    // From the highest power of x^2 down.
    const ABOVE: [f32; 7] = [
        -2.726_142_3e-10,
        2.770_681_4e-8,
        -2.101_024e-6,
        -5.692_506e-5,
        -7.349_906e-4,
        -2.954_6e-3,
        -1.609_603_3e-2,
    ];
    const BELOW: [f32; 5] = [
        -1.456_607_2e-5,
        -2.133_740_6e-4,
        -1.682_827e-3,
        -7.373_329e-3,
        -1.426_474e-2,
    ];
    // `clamp` is not used: for NaN it may return a bound.
    let x = if x < -GREATEST { -GREATEST } else { x };
    let x = if x > GREATEST { GREATEST } else { x };
    let square = x * x;
    let (mut above, mut below) = (ABOVE[0], BELOW[0]);
    for coefficient in &ABOVE[1..] {
        above = above.mul_add(square, *coefficient);
    }
    for coefficient in &BELOW[1..] {
        below = below.mul_add(square, *coefficient);
    }
    x * above / below
}

#[cfg(test)]
mod tests {
    use super::{erf, gelu};

    /// The series of the error function around 0, in f64.
    fn exact(x: f64) -> f64 {
        let (mut term, mut sum) = (x, x);
        for n in 1..200_u32 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    }

    #[test]
    fn erf_is_within_its_bound_and_odd() {
        for step in -4500_i16..=4500 {
            let x = f32::from(step) / 1e3;
            let error = (f64::from(erf(x)) - exact(f64::from(x))).abs();
            assert!(error < 4e-7, "{x}: {error}");
        }
        assert!((erf(1e30) - 1.0).abs() < 1e-6 && (erf(-1e30) + 1.0).abs() < 1e-6);
        assert!(erf(f32::NAN).is_nan() && gelu(f32::NAN).is_nan());
    }
}

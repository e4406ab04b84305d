//! The kernels' number of an activation function.

use crate::device::{Activation as Number, Error};
use crate::tape::Activation;

/// Returns the number that kernels know an activation function by.
///
/// # Errors
/// If they do not compute it.
pub(super) fn number(activation: Activation) -> Result<Number, Error> {
    match activation {
        Activation::Silu => Ok(Number::Silu),
        Activation::GeluTanh => Ok(Number::GeluTanh),
        Activation::SquaredRelu => Ok(Number::SquaredRelu),
        Activation::Sigmoid => Ok(Number::Sigmoid),
        // Only vision towers have it, and their operations are refused.
        Activation::Gelu => Err(Error::NoKernel {
            kernel: "gelu".into(),
        }),
    }
}

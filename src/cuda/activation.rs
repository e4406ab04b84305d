//! The kernels' number of an activation function.

use crate::device::Activation as Number;
use crate::tape::Activation;

/// Returns the number that kernels know an activation function by.
pub(super) const fn number(activation: Activation) -> Number {
    match activation {
        Activation::Silu => Number::Silu,
        Activation::GeluTanh => Number::GeluTanh,
        Activation::SquaredRelu => Number::SquaredRelu,
        Activation::Sigmoid => Number::Sigmoid,
        // A checked tape has it only in vision towers.
        Activation::Gelu => Number::Gelu,
    }
}

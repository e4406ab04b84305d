//! Activation functions.

/// An activation function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activation {
    /// `x sigmoid(x)`
    #[default]
    Silu,
    /// The tanh approximation of GELU (Hendrycks and Gimpel 2016): `x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3))`
    GeluTanh,
    /// `max(x, 0)^2` (Nemotron-H)
    SquaredRelu,
    /// `1 / (1 + exp(-x))`
    Sigmoid,
    /// `x / 2 (1 + erf(x / sqrt(2)))` (Hendrycks and Gimpel 2016). Only vision towers have it.
    Gelu,
}

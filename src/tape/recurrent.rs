//! The operations of recurrent layers: short convolutions, gated DeltaNet, Mamba-2.
//!
//! A step first replays the pending updates of its conversations up to their first rows, and stores the state. Its own
//! rows only add pending updates, so a step that runs again adds nothing. Consecutive rows of one conversation are
//! consecutive positions. A prompt begins with `Commit`, reads the state of its slot, writes a spare one, and ends with
//! `Swap`.

use super::operands::{Buffer, WeightId};

/// A depthwise causal convolution: `out[t][c] = bias[c] + sum_j kernel[c][j] in[t - taps + 1 + j][c]`. Inputs before
/// position 0 are zero; earlier rows are in the layer's ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convolution {
    /// A vector (channels * taps): (channels, taps), the row's own tap last.
    pub kernel: WeightId,
    /// (channels)
    pub bias: Option<WeightId>,
}

/// Whether a gate comes before or after its norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateOrder {
    /// `rmsnorm(y) * norm * silu(gate)` (DeltaNet)
    NormFirst,
    /// `rmsnorm(y * silu(gate)) * norm` (Mamba-2)
    GateFirst,
}

/// An operation of a recurrent layer. `layer` counts recurrent layers only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Recurrent {
    /// Replays the pending updates of all layers up to the first row of each conversation.
    Commit,
    /// `out = convolution(input)`, with `silu` `x sigmoid(x)` of it. Stores the input's rows in the layer's ring.
    Convolve {
        layer: usize,
        /// f32 (rows, channels)
        input: Buffer,
        convolution: Convolution,
        silu: bool,
        /// f32 (rows, channels)
        out: Buffer,
    },
    /// `out = c * convolution(b * x)` (LFM2), where a row of the input is `[b | c | x]`. Stores `b * x` in the ring.
    ShortConv {
        layer: usize,
        /// f32 (rows, 3 * channels)
        input: Buffer,
        convolution: Convolution,
        /// (rows, channels), in the tape's activation type
        out: Buffer,
    },
    /// `out = S q` after the token's update with the delta rule. A row of the input is `[q | k | v]`. q and k are
    /// divided by the root of their sums of squares plus `epsilon`, and q by the root of `key_dim`.
    DeltaNet {
        layer: usize,
        /// f32 (rows, channels)
        input: Buffer,
        /// f32 (rows, heads): a and b. `decay = exp(rate softplus(a + dt_bias))`, `beta = sigmoid(b)`
        gates: [Buffer; 2],
        /// (heads): the rate, `-exp(A_log)`
        rate: WeightId,
        /// (heads)
        dt_bias: WeightId,
        epsilon: f32,
        /// f32 (rows, heads * value_dim)
        out: Buffer,
    },
    /// `out = S c + skip x` after the token's update `S = decay S + (dt x) b^T`. A row of the input is `[x | b | c]`.
    Mamba2 {
        layer: usize,
        /// f32 (rows, channels)
        input: Buffer,
        /// f32 (rows, heads): `dt = softplus(gate + dt_bias)`, `decay = exp(rate dt)`
        gate: Buffer,
        /// (heads): the rate, `-exp(A_log)`
        rate: WeightId,
        /// (heads)
        dt_bias: WeightId,
        /// (heads): D
        skip: WeightId,
        /// f32 (rows, heads * value_dim)
        out: Buffer,
    },
    /// The RMS norm of each `group` columns of y, gated.
    GatedNorm {
        /// f32 (rows, columns)
        y: Buffer,
        /// f32 (rows, columns)
        gate: Buffer,
        /// (group), the same for all groups, or (columns)
        norm: WeightId,
        epsilon: f32,
        order: GateOrder,
        group: usize,
        /// (rows, columns), in the tape's activation type
        out: Buffer,
    },
    /// `out` is the input's row of the position before, and zero at position 0. Stores the input's rows in the ring of
    /// hidden states. A tape that reads rows before it writes them, `Tape::guesses`, continues from those of its last run.
    Shift {
        /// f32 (rows, hidden)
        input: Buffer,
        /// f32 (rows, hidden)
        out: Buffer,
    },
    /// Makes the spare state that a prompt wrote the state of its slot, unless the slot has not advanced.
    Swap,
}

impl Recurrent {
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Convolve { .. } => "convolve",
            Self::ShortConv { .. } => "short_conv",
            Self::DeltaNet { .. } => "delta_net",
            Self::Mamba2 { .. } => "mamba2",
            Self::GatedNorm { .. } => "gated_norm",
            Self::Shift { .. } => "shift",
            Self::Swap => "swap",
        }
    }

    /// The recurrent layer whose state the operation reads or writes.
    #[must_use]
    pub const fn layer(&self) -> Option<usize> {
        match *self {
            Self::Convolve { layer, .. }
            | Self::ShortConv { layer, .. }
            | Self::DeltaNet { layer, .. }
            | Self::Mamba2 { layer, .. } => Some(layer),
            Self::Commit | Self::GatedNorm { .. } | Self::Shift { .. } | Self::Swap => None,
        }
    }

    /// Whether the operation writes rows into a state: into the spare one of a prompt.
    #[must_use]
    pub const fn writes_state(&self) -> bool {
        self.layer().is_some() || matches!(self, Self::Shift { .. })
    }

    /// The buffers that the operation reads, and those that it writes.
    #[must_use]
    pub fn buffers(&self) -> (Vec<Buffer>, Vec<Buffer>) {
        match *self {
            Self::Commit | Self::Swap => (vec![], vec![]),
            Self::Convolve { input, out, .. }
            | Self::ShortConv { input, out, .. }
            | Self::Shift { input, out } => (vec![input], vec![out]),
            Self::DeltaNet {
                input,
                gates: [a, b],
                out,
                ..
            } => (vec![input, a, b], vec![out]),
            Self::Mamba2 {
                input, gate, out, ..
            } => (vec![input, gate], vec![out]),
            Self::GatedNorm { y, gate, out, .. } => (vec![y, gate], vec![out]),
        }
    }

    /// The weights that the operation reads.
    #[must_use]
    pub fn weights(&self) -> Vec<WeightId> {
        match *self {
            Self::Commit | Self::Shift { .. } | Self::Swap => vec![],
            Self::Convolve { convolution, .. } | Self::ShortConv { convolution, .. } => {
                let Convolution { kernel, bias } = convolution;
                std::iter::once(kernel).chain(bias).collect()
            }
            Self::DeltaNet { rate, dt_bias, .. } => vec![rate, dt_bias],
            Self::Mamba2 {
                rate,
                dt_bias,
                skip,
                ..
            } => vec![rate, dt_bias, skip],
            Self::GatedNorm { norm, .. } => vec![norm],
        }
    }
}

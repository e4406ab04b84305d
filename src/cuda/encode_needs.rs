//! How a linear layer of a vision tower is computed, and the scratch memory that it needs.

use super::activation::number;
use crate::device::{self, Epilogue};
use crate::quant::{DType, padded};
use crate::tape::{Activation, Tape, Vision};

/// Elements of a row of outputs that a product stores at once, from the first on.
const AT_ONCE: usize = 4;

/// Bytes of scratch memory for the linear layers of a tower.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TowerNeeds {
    /// Clamped and rounded inputs.
    pub(super) rounded: usize,
    /// Sums of inputs.
    pub(super) sums: usize,
    /// f32 products whose outputs a kernel of their own clamps.
    pub(super) products: usize,
}

impl TowerNeeds {
    /// Adds the needs of an operation.
    pub(super) fn add(&mut self, tape: &Tape, op: &Vision) {
        let Vision::Linear {
            input,
            weight,
            clip,
            ..
        } = *op
        else {
            return;
        };
        let info = tape.buffer(input);
        let columns = padded(info.columns);
        if info.dtype == DType::F32 || clip.is_some() {
            self.rounded = self.rounded.max(2 * info.rows * columns);
        }
        // `sums.cuh`
        let sums = info.rows.next_multiple_of(16) * columns / 32 * 4;
        self.sums = self.sums.max(sums);
        if direct(tape, op).is_none() {
            let products = 4 * info.rows * tape.weight(weight).rows;
            self.products = self.products.max(products);
        }
    }
}

/// The epilogue and the activation of a product that computes a whole layer; `None` if another kernel finishes it.
pub(super) fn direct(tape: &Tape, op: &Vision) -> Option<(Epilogue, device::Activation)> {
    let Vision::Linear {
        clip: None,
        activation,
        adds,
        out,
        first,
        ..
    } = *op
    else {
        return None;
    };
    if !first.is_multiple_of(AT_ONCE) {
        return None;
    }
    let identity = device::Activation::Identity;
    match (tape.buffer(out).dtype, activation) {
        (DType::F32, None) if adds => Some((Epilogue::Added, identity)),
        (DType::F32, None) => Some((Epilogue::Stored, identity)),
        (DType::F32, Some(of @ (Activation::Silu | Activation::GeluTanh))) => {
            Some((Epilogue::Activated, number(of)))
        }
        (DType::F32, Some(_)) => None,
        (_, of) => Some((Epilogue::Rounded, of.map_or(identity, number))),
    }
}

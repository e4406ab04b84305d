//! The types of a cache in kernels: their names, and whether tensor cores multiply the values.

use crate::kv::{KvType, KvTypes};
use crate::quant::DType;

/// The widest head of the kernels that most models use; wider ones have kernels with `wide` in their names.
pub(super) const WIDE_HEAD: usize = 256;

/// The part of kernel names for the types of activations and cache: that of both; or the type that quants become; or
/// the types of activations, K and V.
pub(super) fn names(activation: DType, types: KvTypes) -> String {
    let name = activation.name();
    let of = |element: KvType| element.number().map_or("q8", DType::name);
    match types.one() {
        Some(KvType::Q8_0) => format!("q8_{name}"),
        Some(number) => format!("{name}_{}", number.name()),
        None => format!("{name}_{}_{}", of(types.k), of(types.v)),
    }
}

/// Whether tensor cores multiply the values of a cache: quants, which become activations, and numbers of the
/// activations' type.
pub(super) fn multiplies(activation: DType, types: KvTypes) -> bool {
    let mut numbers = types.sides().into_iter().filter_map(KvType::number);
    numbers.all(|number| number == activation)
}

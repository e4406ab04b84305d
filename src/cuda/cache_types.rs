//! What the types of a cache mean for kernels: their names, and whether tensor cores multiply what is read.

use crate::tape::{DType, KvType, KvTypes};

/// How kernels are named by the types of activations and cache: by the activations' and the cache's; by what quants become; or by
/// the activations', K's and V's.
pub(super) fn names(activation: DType, types: KvTypes) -> String {
    let name = activation.name();
    let of = |element: KvType| element.number().map_or("q8", DType::name);
    match types.one() {
        Some(KvType::Q8_0) => format!("q8_{name}"),
        Some(number) => format!("{name}_{}", number.name()),
        None => format!("{name}_{}_{}", of(types.k), of(types.v)),
    }
}

/// Whether tensor cores multiply what is read of a cache: quants, which become activations, and numbers of the activations' type.
pub(super) fn multiplies(activation: DType, types: KvTypes) -> bool {
    let mut numbers = types.sides().into_iter().filter_map(KvType::number);
    numbers.all(|number| number == activation)
}

//! The families of models that `forward` supports, each as data in a file: names, row order, required tensors, and the
//! meaning of its own keys.
//! Not here: keys that all families share (`checkpoint`).

mod family;
mod gemma3;
mod gemma4;
mod granite;
mod granitemoehybrid;
mod lfm2;
mod lists;
mod llama;
mod ministral3;
mod mistral;
mod nemotron_h;
mod phi3;
mod qwen2;
mod qwen3;
mod qwen3_5;
mod qwen3_vl;
mod smollm3;
#[cfg(test)]
mod tests;

pub(super) use family::Defaults;
pub use family::{Architecture, Keys};
pub(super) use gemma4::ASSISTANT;
pub(super) use lists::{check_length, layer_kinds, layer_list};

use super::error::Defect;

/// All supported architectures.
pub const ALL: [&Architecture; 15] = [
    &llama::LLAMA,
    &qwen2::QWEN2,
    &qwen3::QWEN3,
    &smollm3::SMOLLM3,
    &ministral3::MINISTRAL3,
    &mistral::MISTRAL,
    &gemma3::GEMMA3,
    &gemma4::GEMMA4,
    &granite::GRANITE,
    &phi3::PHI3,
    &qwen3_5::QWEN3_5,
    &qwen3_vl::QWEN3_VL,
    &lfm2::LFM2,
    &granitemoehybrid::GRANITEMOEHYBRID,
    &nemotron_h::NEMOTRON_H,
];

impl Architecture {
    /// Returns the architecture of a config.json's `model_type`.
    pub(super) fn of_config(name: String) -> Result<&'static Self, Defect> {
        let is = |known: &Self| known.name == name || known.aliases.contains(&name.as_str());
        Self::find(is).ok_or_else(|| Self::unknown(name))
    }

    /// Returns the architecture of a GGUF file: the first of those that share the name.
    pub(super) fn of_gguf(name: String) -> Result<&'static Self, Defect> {
        Self::find(|known| known.gguf == name).ok_or_else(|| Self::unknown(name))
    }

    fn find(is: impl Fn(&Self) -> bool) -> Option<&'static Self> {
        ALL.into_iter().find(|known| is(known))
    }

    fn unknown(name: String) -> Defect {
        let [others @ .., last] = ALL.map(|known| known.name);
        let known = format!("{} and {last}", others.join(", "));
        Defect::UnknownArchitecture { name, known }
    }
}

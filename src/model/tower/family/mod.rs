//! The families of vision towers, each as data in a file: names, and shapes from the keys of config.json or of a GGUF
//! file.

mod gemma3;
mod gemma4;
mod idefics3;
mod lfm2_vl;
mod qwen3_vl;
mod siglip;
mod tower_family;

pub(in crate::model) use tower_family::TowerFamily;

use crate::model::error::Defect;

/// All supported families.
const ALL: [&TowerFamily; 5] = [
    &qwen3_vl::QWEN3_VL,
    &gemma3::GEMMA3,
    &gemma4::GEMMA4,
    &idefics3::IDEFICS3,
    &lfm2_vl::LFM2_VL,
];

/// Returns the family of a config.json's `model_type`.
pub(in crate::model) fn of_config(name: &str) -> Result<&'static TowerFamily, Defect> {
    let is = |known: &&TowerFamily| known.models.contains(&name);
    ALL.into_iter().find(is).ok_or_else(|| {
        let known = ALL.iter().flat_map(|family| family.models).copied();
        Defect::bad_value("model_type", name, supported(known))
    })
}

/// Returns the family of a projector type in a GGUF file.
pub(in crate::model) fn of_projector(
    key: &str,
    name: &str,
) -> Result<&'static TowerFamily, Defect> {
    let is = |known: &&TowerFamily| known.projector == name;
    ALL.into_iter().find(is).ok_or_else(|| {
        let known = ALL.iter().map(|family| family.projector);
        Defect::bad_value(key, name, supported(known))
    })
}

fn supported(known: impl Iterator<Item = &'static str>) -> String {
    let known: Vec<_> = known.collect();
    format!(
        "vision towers of this type are not supported; supported: {}",
        known.join(", ")
    )
}

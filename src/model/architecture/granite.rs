//! Granite 3 and the dense members of Granite 4: Llama with four multipliers.

use super::family::{Architecture, Defaults, Keys};
use super::llama::LLAMA;
use crate::model::error::Defect;
use crate::model::shape::Shape;

pub(super) const GRANITE: Architecture = Architecture {
    name: "granite",
    gguf: "granite",
    defaults: Defaults {
        tied: false,
        ..Defaults::PLAIN
    },
    from_config: multiply,
    ..LLAMA
};

/// Reads the multipliers of a config.json. A GGUF file has the keys of all families.
#[allow(clippy::cast_possible_truncation)] // float32 is the reference
fn multiply(keys: &dyn Keys, shape: &mut Shape) -> Result<(), Defect> {
    let of = |key| Ok::<_, Defect>(keys.float(key)?.unwrap_or(1.0) as f32);
    let multipliers = &mut shape.multipliers;
    multipliers.embedding = of("embedding_multiplier")?;
    multipliers.scores = Some(of("attention_multiplier")?);
    multipliers.residual = of("residual_multiplier")?;
    multipliers.logits = 1.0 / of("logits_scaling")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{of_config, of_gguf};

    #[test]
    fn both_forms_have_the_same_multipliers() {
        let shape = of_config("tiny-granite", |_| ());
        assert!((shape.multipliers.residual - 0.7).abs() < 1e-6);
        assert_eq!(of_gguf("tiny-granite"), shape);
    }
}

//! Granite 3, and GGUF files of dense Granite 4 models: Llama with four multipliers.

use super::family::{Architecture, Keys};
use super::llama::LLAMA;
use crate::model::error::Defect;
use crate::model::shape::Shape;

pub(super) const GRANITE: Architecture = Architecture {
    name: "granite",
    gguf: "granite",
    from_config: multiply,
    from_gguf: stop_rotation,
    ..LLAMA
};

/// Applies the key of a GGUF file that says whether q and k rotate at all.
pub(super) fn stop_rotation(keys: &dyn Keys, shape: &mut Shape) -> Result<(), Defect> {
    if keys.flag("rope.scaling.finetuned")? == Some(false) {
        for (_, attention) in shape.attention_mut() {
            attention.angles = None;
        }
    }
    Ok(())
}

/// Reads the multipliers of a config.json. A GGUF file has the keys of all families.
#[allow(clippy::cast_possible_truncation)] // float32 is the reference
pub(super) fn multiply(keys: &dyn Keys, shape: &mut Shape) -> Result<(), Defect> {
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
    use serde_json::json;

    use super::super::tests::{of_config, of_gguf};
    use super::GRANITE;

    #[test]
    fn a_file_can_say_that_nothing_rotates() {
        let mut shape = of_gguf("tiny-granite");
        let still = json!({"rope": {"scaling": {"finetuned": false}}});
        (GRANITE.from_gguf)(&still, &mut shape).expect("it is read");
        assert!(shape.attention().all(|(_, of)| of.angles.is_none()));
    }

    #[test]
    fn its_multipliers_are_read() {
        let multipliers = of_config("tiny-granite", |_| ()).multipliers;
        assert!((multipliers.residual - 0.7).abs() < 1e-6);
        assert!((multipliers.logits - 0.5).abs() < 1e-6);
    }
}

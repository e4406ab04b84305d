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
    use super::super::tests::{of_config, of_gguf};
    use super::{Defect, GRANITE, Keys};

    /// A file that says that positions are not rotated.
    struct Still;

    impl Keys for Still {
        fn has(&self, _: &str) -> bool {
            false
        }

        fn size(&self, _: &str) -> Result<Option<usize>, Defect> {
            Ok(None)
        }

        fn float(&self, _: &str) -> Result<Option<f64>, Defect> {
            Ok(None)
        }

        fn flag(&self, key: &str) -> Result<Option<bool>, Defect> {
            Ok((key == "rope.scaling.finetuned").then_some(false))
        }

        fn flags(&self, _: &str) -> Result<Option<Vec<bool>>, Defect> {
            Ok(None)
        }

        fn has_tensor(&self, _: &str) -> bool {
            false
        }

        fn sizes(&self, _: &str) -> Result<Option<Vec<usize>>, Defect> {
            Ok(None)
        }

        fn word(&self, _: &str) -> Result<Option<String>, Defect> {
            Ok(None)
        }

        fn words(&self, _: &str) -> Result<Option<Vec<String>>, Defect> {
            Ok(None)
        }
    }

    #[test]
    fn a_file_can_say_that_nothing_rotates() {
        let mut shape = of_gguf("tiny-granite");
        (GRANITE.from_gguf)(&Still, &mut shape).expect("it is read");
        assert!(shape.attention().all(|(_, of)| of.angles.is_none()));
    }

    #[test]
    fn both_forms_have_the_same_multipliers() {
        let shape = of_config("tiny-granite", |_| ());
        assert!((shape.multipliers.residual - 0.7).abs() < 1e-6);
        assert_eq!(of_gguf("tiny-granite"), shape);
    }
}

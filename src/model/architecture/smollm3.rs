//! SmolLM3: Llama with some layers without rotation (`NoPE`, Kazemnejad et al. 2023).

use super::family::{Architecture, Defaults, Keys};
use super::lists::flags_or;
use super::llama::LLAMA;
use crate::model::error::Defect;
use crate::model::shape::Shape;

pub(super) const SMOLLM3: Architecture = Architecture {
    name: "smollm3",
    gguf: "smollm3",
    defaults: Defaults {
        theta: 2_000_000.0,
        kv_heads: Some(4),
        tied: true,
        ..Defaults::PLAIN
    },
    from_config: |keys, shape| {
        let every = keys.size("no_rope_layer_interval")?.unwrap_or(4);
        skip_rotation(shape, keys, every)
    },
    // The files do not contain the interval.
    from_gguf: |keys, shape| skip_rotation(shape, keys, 4),
    ..LLAMA
};

/// Removes the rotation of layers whose entry in a list is 0; without a list, of the last layer of each group of
/// `every`.
fn skip_rotation(shape: &mut Shape, keys: &dyn Keys, every: usize) -> Result<(), Defect> {
    let usually = |layer: usize| !(layer + 1).is_multiple_of(every);
    let turns = flags_or(keys, "no_rope_layers", shape.layers.len(), usually)?;
    for (layer, attention) in shape.attention_mut() {
        attention.angles = attention.angles.filter(|_| turns[layer]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{has_default, of_config};

    #[test]
    fn every_fourth_layer_has_no_rotation_without_a_list() {
        let listed = of_config("tiny-smollm3", |_| ());
        let angles: Vec<_> = listed.attention().map(|(_, of)| of.angles).collect();
        let still = |layer: usize| angles[layer].is_none();
        assert_eq!(
            [0, 1, 2, 3, 4].map(still),
            [false, false, false, true, false]
        );
        let by_interval = of_config("tiny-smollm3", |config| {
            config["no_rope_layers"] = serde_json::Value::Null;
        });
        assert_eq!(by_interval, listed);
        let other = of_config("tiny-smollm3", |config| {
            config["no_rope_layers"] = serde_json::json!([0, 1, 1, 1, true]);
        });
        let angles: Vec<_> = other.attention().map(|(_, of)| of.angles).collect();
        assert_eq!([angles[0], angles[3]], [None, Some(0)]);
    }

    #[test]
    fn its_defaults_are_those_of_its_class() {
        has_default("tiny-smollm3", "rope_theta", &serde_json::json!(2e6));
        has_default("tiny-smollm3", "tie_word_embeddings", &true.into());
    }

    #[test]
    fn the_config_may_be_of_transformers_5() {
        let shape = of_config("tiny-smollm3", |config| {
            let theta = config["rope_theta"].take();
            config["rope_parameters"] =
                serde_json::json!({"rope_theta": theta, "rope_type": "default"});
        });
        assert_eq!(shape, of_config("tiny-smollm3", |_| ()));
    }
}

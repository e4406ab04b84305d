//! SmolLM3: Llama with some layers without rotation (`NoPE`, Kazemnejad et al. 2023).

use super::family::{Architecture, Defaults, Keys};
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
    let listed = keys.flags("no_rope_layers")?;
    let layers = shape.layers.len();
    if let Some(listed) = listed.as_ref().filter(|list| list.len() != layers) {
        let allowed = format!("it must have one for each of {layers} layers");
        let found = format!("{} flags", listed.len());
        return Err(Defect::bad_value("no_rope_layers", found, allowed));
    }
    let usually = |layer: usize| !(layer + 1).is_multiple_of(every);
    for (layer, attention) in shape.attention_mut() {
        let turns = listed
            .as_ref()
            .map_or(usually(layer), |listed| listed[layer]);
        attention.angles = attention.angles.filter(|_| turns);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{of_config, of_gguf};

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
        assert_eq!(of_gguf("tiny-smollm3"), listed);
        let other = of_config("tiny-smollm3", |config| {
            config["no_rope_layers"] = serde_json::json!([0, 1, 1, 1, true]);
        });
        let angles: Vec<_> = other.attention().map(|(_, of)| of.angles).collect();
        assert_eq!([angles[0], angles[3]], [None, Some(0)]);
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

//! Ministral 3: Llama, with queries that grow with their position beyond the original context (as in Llama 4). It is
//! published as the language part of a vision model.

use std::num::NonZeroUsize;

use super::family::{Architecture, Defaults, Keys};
use super::llama::LLAMA;
use crate::model::error::Defect;
use crate::model::shape::Shape;
use crate::tape::QueryScale;

pub(super) const MINISTRAL3: Architecture = Architecture {
    name: "ministral3",
    gguf: "mistral3",
    defaults: Defaults {
        epsilon: 1e-5,
        kv_heads: Some(8),
        head_dim: Some(128),
        scaled: true,
        ..Defaults::PLAIN
    },
    from_config: |keys, shape| {
        slide(keys, shape, None)?;
        let beta = |object: &str| format!("{object}.llama_4_scaling_beta");
        let object = ["rope_scaling", "rope_parameters"]
            .into_iter()
            .find(|object| keys.has(&beta(object)))
            .unwrap_or("rope_parameters");
        let original = format!("{object}.original_max_position_embeddings");
        scale_queries(shape, keys, &beta(object), &original)
    },
    from_gguf: |keys, shape| {
        let original = "rope.scaling.original_context_length";
        scale_queries(shape, keys, "attention.temperature_scale", original)
    },
    ..LLAMA
};

/// Gives all layers the file's window, or the `usual` one if the key is missing.
pub(super) fn slide(
    keys: &dyn Keys,
    shape: &mut Shape,
    usual: Option<usize>,
) -> Result<(), Defect> {
    let window = match keys.size("sliding_window")? {
        None if !keys.has("sliding_window") => usual,
        window => window,
    };
    let window = window.and_then(NonZeroUsize::new);
    for (_, attention) in shape.attention_mut() {
        attention.window = window;
    }
    Ok(())
}

/// Sets the growth of queries if both keys exist.
fn scale_queries(
    shape: &mut Shape,
    keys: &dyn Keys,
    beta: &str,
    original: &str,
) -> Result<(), Defect> {
    let original = keys.size(original)?.and_then(NonZeroUsize::new);
    let beta = keys.float(beta)?.filter(|beta| *beta != 0.0);
    shape.query_scale = beta.zip(original).map(|(beta, original)| QueryScale {
        #[allow(clippy::cast_possible_truncation)] // float32 is the reference
        beta: beta as f32,
        original,
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::of_config;

    #[test]
    fn it_may_be_the_part_of_another_model() {
        let shape = of_config("tiny-ministral3", |_| ());
        let scale = shape.query_scale.expect("queries are scaled");
        let original = scale.original.get();
        assert!((scale.at(original - 1) - 1.0).abs() < 1e-6);
        assert!((scale.at(3 * original) - 1.138_629_4).abs() < 1e-6);
        let published = of_config("tiny-ministral3", |config| {
            *config = serde_json::json!({
                "architectures": ["Mistral3ForConditionalGeneration"],
                "model_type": "mistral3",
                "text_config": config,
                "vision_config": {"model_type": "pixtral"},
            });
        });
        assert_eq!(published, shape);
    }

    #[test]
    fn a_window_applies_to_all_layers() {
        let shape = of_config("tiny-ministral3", |config| {
            config["sliding_window"] = serde_json::json!(128);
        });
        let mut windows = shape.attention().map(|(_, of)| of.window);
        assert!(windows.all(|window| window.is_some_and(|window| window.get() == 128)));
    }
}

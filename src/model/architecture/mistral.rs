//! Mistral 7B and models of its shape, such as Mistral Nemo and Mistral Small 3: Llama, where the early versions see
//! only a window of positions.

use super::family::{Architecture, Defaults};
use super::llama::LLAMA;
use super::ministral3::slide;

/// Positions that a layer sees if a config.json has no such key.
const WINDOW: usize = 4096;

pub(super) const MISTRAL: Architecture = Architecture {
    name: "mistral",
    // The file of such a model names Llama as its architecture, and has no window.
    gguf: "llama",
    defaults: Defaults {
        kv_heads: Some(8),
        ..Defaults::PLAIN
    },
    from_config: |keys, shape| slide(keys, shape, Some(WINDOW)),
    ..LLAMA
};

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::tests::of_config;
    use crate::model::Shape;

    #[test]
    fn all_layers_have_the_window_that_is_named_and_none_without() {
        let shape = of_config("tiny-mistral", |_| ());
        let of = |shape: &Shape| -> Vec<_> {
            let windows = shape.attention().map(|(_, layer)| layer.window);
            windows
                .map(|window| window.map_or(0, usize::from))
                .collect()
        };
        assert_eq!(of(&shape), [48; 4]);
        let later = of_config("tiny-mistral", |config| {
            config["sliding_window"] = Value::Null;
        });
        assert_eq!(of(&later), [0; 4]);
        let left_out = of_config("tiny-mistral", |config| {
            config["max_position_embeddings"] = 8192.into();
            config
                .as_object_mut()
                .expect("an object")
                .remove("sliding_window");
        });
        assert_eq!(of(&left_out), [4096; 4]);
    }
}

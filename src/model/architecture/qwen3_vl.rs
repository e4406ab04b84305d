//! The language model of Qwen3-VL: Qwen3 with positions of three parts, and further embeddings of images after the first
//! layers.

use super::family::{Architecture, Keys};
use super::qwen3::QWEN3;
use crate::model::error::Defect;
use crate::model::shape::{Shape, sections};

/// The keys of the parts of positions, in files of transformers before version 5 and in newer ones, and in GGUF files.
const SECTIONS: [&str; 3] = [
    "rope_scaling.mrope_section",
    "rope_parameters.mrope_section",
    "rope.dimension_sections",
];
/// Whether the parts alternate.
const INTERLEAVED: [&str; 2] = [
    "rope_scaling.mrope_interleaved",
    "rope_parameters.mrope_interleaved",
];
/// The blocks of the tower whose results are added, if a config.json does not list them.
const DEEPSTACK: usize = 3;

pub(super) const QWEN3_VL: Architecture = Architecture {
    name: "qwen3_vl",
    aliases: &["qwen3_vl_text"],
    gguf: "qwen3vl",
    from_config: |keys, shape| {
        let blocks = keys.sizes("vision_config.deepstack_visual_indexes")?;
        let usual = if keys.has("vision_config") {
            DEEPSTACK
        } else {
            0
        };
        shape.images.deepstack = blocks.map_or(usual, |blocks| blocks.len());
        read_sections(keys, shape, [24, 20, 20])
    },
    from_gguf: |keys, shape| {
        shape.images.deepstack = keys.needed("n_deepstack_layers")?;
        read_sections(keys, shape, [24, 20, 20])
    },
    ..QWEN3
};

/// Sets the parts of positions, which are `usual` if a file does not state them.
pub(super) fn read_sections(
    keys: &dyn Keys,
    shape: &mut Shape,
    usual: [usize; 3],
) -> Result<(), Defect> {
    for key in INTERLEAVED {
        if keys.flag(key)? == Some(false) {
            return Err(Defect::bad_value(key, false, "only true is computed"));
        }
    }
    let mut stated = None;
    for key in SECTIONS {
        let list = keys.sizes(key)?;
        stated = stated.or(list.map(|list| (key, list)));
    }
    let (key, list) = stated.unwrap_or((SECTIONS[1], usual.to_vec()));
    shape.images.sections = Some(sections(keys.named(key), &list)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::{of_config, read};
    use crate::model::Shape;

    /// A config.json of Qwen3-VL around the language model of another golden model.
    fn edit(config: &mut Value, change: impl FnOnce(&mut Value)) {
        let mut text = config.take();
        text["model_type"] = Value::from("qwen3_vl_text");
        text["rope_parameters"]["mrope_section"] = json!([6, 5, 5]);
        text["rope_parameters"]["mrope_interleaved"] = json!(true);
        *config = json!({
            "architectures": ["Qwen3VLForConditionalGeneration"],
            "model_type": "qwen3_vl",
            "text_config": text,
            "vision_config": {"deepstack_visual_indexes": [5, 11]},
        });
        change(config);
    }

    fn shape(change: impl FnOnce(&mut Value)) -> Shape {
        of_config("tiny-qwen3", |config| edit(config, change))
    }

    #[test]
    fn old_and_new_keys_say_the_same() {
        let newer = shape(|_| ());
        let images = newer.images;
        assert_eq!(images.sections.expect("it has parts").pairs, [6, 5, 5]);
        assert_eq!(images.deepstack, 2);
        let older = shape(|config| {
            let text = &mut config["text_config"];
            let mut parameters = text["rope_parameters"].take();
            text["rope_theta"] = parameters["rope_theta"].take();
            text["rope_scaling"] = parameters;
        });
        assert_eq!(newer, older);
        let listless = shape(|config| config["vision_config"] = json!({}));
        assert_eq!(listless.images.deepstack, 3);
    }

    #[test]
    fn parts_that_are_not_computed_are_refused() {
        let refused = |key: &str, value: Value| {
            let read = read("tiny-qwen3", |config| {
                edit(config, |config| {
                    config["text_config"]["rope_parameters"][key] = value;
                });
            });
            read.expect_err("it is refused")
        };
        assert!(refused("mrope_interleaved", json!(false)).contains("mrope_interleaved"));
        assert!(refused("mrope_section", json!([8, 8])).contains("three numbers"));
        assert!(refused("mrope_section", json!([4, 6, 6])).contains("16 pairs"));
    }
}

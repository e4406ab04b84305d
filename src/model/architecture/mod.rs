//! The families of models that `forward` supports, each as data in a file: names, row order, required tensors, and the
//! meaning of its own keys.
//! Not here: keys that all families share (`checkpoint`).

mod family;
mod gemma3;
mod gemma4;
mod granite;
mod granitemoehybrid;
mod lfm2;
mod llama;
mod ministral3;
mod mistral;
mod nemotron_h;
mod phi3;
mod qwen2;
mod qwen3;
mod qwen3_5;
mod smollm3;

pub(super) use family::Defaults;
pub use family::{Architecture, Keys};

use super::error::Defect;

/// All supported architectures.
pub const ALL: [&Architecture; 14] = [
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

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use serde_json::{Value, json};

    use crate::model::{Checkpoint, Shape};

    fn golden(name: &str) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        folder.join(name)
    }

    /// Reads the shape of a golden model after an edit of its config.json; or the reason of the refusal.
    pub(super) fn read(name: &str, edit: impl FnOnce(&mut Value)) -> Result<Shape, String> {
        let text = std::fs::read_to_string(golden(name).join("config.json")).expect("golden data");
        let mut config = serde_json::from_str(&text).expect("JSON");
        edit(&mut config);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = |name: &str| directory.path().join(name);
        std::fs::write(file("config.json"), config.to_string()).expect("it is written");
        let weights = golden(name).join("model.safetensors");
        std::fs::copy(weights, file("model.safetensors")).expect("it is copied");
        let opened = Checkpoint::open(directory.path());
        let shape = opened.map(|checkpoint| checkpoint.shape);
        shape.map_err(|error| error.defect.to_string())
    }

    /// Reads the shape of a golden model after an edit of its config.json.
    pub(super) fn of_config(name: &str, edit: impl FnOnce(&mut Value)) -> Shape {
        read(name, edit).expect("it opens")
    }

    /// Reads the shape of the GGUF file of a golden model.
    pub(super) fn of_gguf(name: &str) -> Shape {
        let checkpoint = Checkpoint::open(&golden(name).join("model.q8_0.gguf"));
        checkpoint.expect("it opens").shape
    }

    #[test]
    fn tables_of_angles_are_as_the_config_says_in_either_of_its_forms() {
        let now = of_config("tiny-llama3-rope", |_| ());
        let before = of_config("tiny-llama3-rope", |config| {
            let mut parameters = config["rope_parameters"].take();
            config["rope_theta"] = parameters["rope_theta"].take();
            config["rope_scaling"] = parameters;
        });
        assert_eq!(now, before);
        assert!(now.attention().all(|(_, of)| of.angles == Some(0)));
    }

    /// `config.v5.json` is as transformers 5 writes it.
    #[test]
    fn configs_of_both_versions_say_the_same() {
        for name in [
            "tiny-gemma3",
            "tiny-gemma4",
            "tiny-gemma4_dense",
            "tiny-granite",
            "tiny-phi3",
        ] {
            let text = std::fs::read_to_string(golden(name).join("config.v5.json"));
            let newer = serde_json::from_str(&text.expect("golden data")).expect("JSON");
            let newer = of_config(name, |config| *config = newer);
            assert_eq!(newer, of_config(name, |_| ()), "{name}");
        }
    }

    /// save_pretrained leaves out keys with their default values.
    #[test]
    fn a_key_that_is_left_out_has_its_familys_default() {
        for (name, key, default) in [
            ("tiny-llama", "rms_norm_eps", json!(1e-6)),
            ("tiny-llama", "num_key_value_heads", json!(4)),
            ("tiny-qwen2", "rms_norm_eps", json!(1e-6)),
            ("tiny-qwen2", "rope_parameters", json!({"rope_theta": 1e4})),
            ("tiny-smollm3", "rope_theta", json!(2e6)),
            ("tiny-smollm3", "tie_word_embeddings", json!(true)),
            ("tiny-mistral", "rope_theta", json!(1e4)),
            ("tiny-mistral", "sliding_window", json!(4096)),
            ("tiny-ministral3", "rms_norm_eps", json!(1e-5)),
        ] {
            let edit = |value: Option<&Value>| {
                read(name, |config| {
                    config["max_position_embeddings"] = json!(8192);
                    let members = config.as_object_mut().expect("an object");
                    members.remove(key);
                    members.extend(value.map(|value| (key.into(), value.clone())));
                })
            };
            let (left_out, stated) = (edit(None), edit(Some(&default)));
            match (&left_out, &stated) {
                (Ok(left_out), Ok(stated)) => assert_eq!(left_out, stated, "{name} {key}"),
                // The golden weights have another shape.
                (left_out, stated) => assert_eq!(
                    left_out.as_ref().err(),
                    stated.as_ref().err(),
                    "{name} {key}"
                ),
            }
        }
        for (name, key) in [
            ("tiny-ministral3", "rope_parameters"),
            ("tiny-llama", "hidden_size"),
            ("tiny-llama", "max_position_embeddings"),
        ] {
            let refused = read(name, |config| {
                config.as_object_mut().expect("an object").remove(key);
            });
            let said = refused.expect_err("it is refused");
            assert!(said.contains(&format!("{key} is missing")), "{said}");
        }
        // The golden weights have another head dimension than the family's default.
        let qwen3 = read("tiny-qwen3", |config| {
            config
                .as_object_mut()
                .expect("an object")
                .remove("head_dim");
        });
        let said = qwen3.expect_err("it is refused");
        assert!(said.contains("the model's shape says [512, 64]"), "{said}");
    }

    /// As in transformers, a separate head in the file counts more than a config that ties it to the embedding.
    #[test]
    fn a_head_with_values_of_its_own_is_not_tied() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = |name: &str| directory.path().join(name);
        let text = std::fs::read_to_string(golden("tiny-llama").join("config.json"));
        let text = text.expect("golden data");
        let tied = text.replace(
            "\"tie_word_embeddings\": false",
            "\"tie_word_embeddings\": true",
        );
        assert_ne!(tied, text);
        std::fs::write(file("config.json"), tied).expect("it is written");
        let weights = golden("tiny-llama").join("model.safetensors");
        std::fs::copy(weights, file("model.safetensors")).expect("it is copied");
        let checkpoint = Checkpoint::open(directory.path()).expect("it opens");
        assert!(checkpoint.tensors.head.is_some());
    }

    /// Model cards describe the extension of a context in one form, and newer files nest it.
    #[test]
    fn yarn_multiplies_the_context_that_it_states() {
        let with = |key: &str, value: Value| of_config("tiny-llama", |config| config[key] = value);
        let yarn = json!({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512});
        let scaled = with("rope_scaling", yarn.clone());
        assert_eq!(scaled.context, 2048);
        assert!(scaled.angles[0].amplitude > 1.0);
        let mut whole = yarn.clone();
        whole["rope_theta"] = json!(1e5);
        let nested = json!({"full_attention": whole, "sliding_attention": {"rope_theta": 1e4}});
        let amplitude = |shape: &Shape| shape.angles[0].amplitude.to_bits();
        assert_eq!(
            amplitude(&with("rope_parameters", nested)),
            amplitude(&scaled)
        );
        // The ratio of both contexts implies a missing factor.
        let implied = json!({"rope_type": "yarn", "original_max_position_embeddings": 128});
        assert_eq!(with("rope_scaling", implied).context, 512);

        let plain = of_config("tiny-llama", |_| ());
        let dynamic = json!({"type": "dynamic", "factor": 2.0});
        let theta = json!(1e5);
        let with_theta = |value: &Value| {
            of_config("tiny-llama", |config| {
                config["rope_scaling"] = value.clone();
                config["rope_theta"] = theta.clone();
            })
        };
        assert_eq!(with_theta(&dynamic), plain);
        let linear = with_theta(&json!({"type": "linear", "factor": 2.0}));
        assert_eq!(linear.context, plain.context);
        let tables = linear.angles[0].frequencies.iter();
        for (slow, fast) in tables.zip(&plain.angles[0].frequencies) {
            assert!((fast / 2.0 - slow).abs() <= f32::EPSILON * fast);
        }
    }
}

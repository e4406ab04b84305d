//! Golden models in all forms of their files.

pub(super) mod gguf;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::model::shape::MixerShape;
use crate::model::{Checkpoint, Shape};
use crate::tape::HeadOrder;

fn golden(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    folder.join(name)
}

/// Lists the golden models that have all of these files.
fn models_with(files: &[&str]) -> Vec<String> {
    let entries = std::fs::read_dir(golden("")).expect("golden data");
    let names = entries.map(|entry| entry.expect("it is read").file_name());
    let names = names.map(|name| name.into_string().expect("UTF-8"));
    let has_all = |name: &String| files.iter().all(|file| golden(name).join(file).exists());
    let models: Vec<String> = names.filter(has_all).collect();
    assert!(models.len() > 4, "{models:?}");
    models
}

/// Writes a model's weights: those of its file, or else zeros of the shapes in tensors.json.
fn write_weights(name: &str, path: &Path) {
    let weights = golden(name).join("model.safetensors");
    if weights.exists() {
        std::fs::copy(weights, path).expect("it is copied");
        return;
    }
    let text = std::fs::read_to_string(golden(name).join("tensors.json")).expect("golden data");
    let shapes: BTreeMap<String, Vec<u64>> = serde_json::from_str(&text).expect("JSON");
    let mut end = 0;
    let mut header = serde_json::Map::new();
    for (tensor, shape) in shapes {
        let start = end;
        end += 4 * shape.iter().product::<u64>();
        let offsets = [start, end];
        let info = json!({"dtype": "F32", "shape": shape, "data_offsets": offsets});
        header.insert(tensor, info);
    }
    let header = Value::from(header).to_string();
    let length = header.len() as u64;
    let mut file = File::create(path).expect("it is created");
    file.write_all(&[&length.to_le_bytes(), header.as_bytes()].concat())
        .expect("it is written");
    file.set_len(8 + length + end).expect("it grows");
}

/// Reads the shape of a golden model after an edit of its config.json; or the reason of the refusal.
pub(super) fn read(name: &str, edit: impl FnOnce(&mut Value)) -> Result<Shape, String> {
    let text = std::fs::read_to_string(golden(name).join("config.json")).expect("golden data");
    let mut config = serde_json::from_str(&text).expect("JSON");
    edit(&mut config);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str| directory.path().join(name);
    std::fs::write(file("config.json"), config.to_string()).expect("it is written");
    write_weights(name, &file("model.safetensors"));
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
    for name in models_with(&["config.json", "config.v5.json"]) {
        let text = std::fs::read_to_string(golden(&name).join("config.v5.json"));
        let newer = serde_json::from_str(&text.expect("golden data")).expect("JSON");
        let newer = of_config(&name, |config| *config = newer);
        assert_eq!(newer, of_config(&name, |_| ()), "{name}");
    }
}

/// The GGUF files of llama.cpp's converter describe the same models.
#[test]
fn both_forms_say_the_same() {
    for name in models_with(&["config.json", "model.q8_0.gguf"]) {
        let (mut config, mut file) = (of_config(&name, |_| ()), of_gguf(&name));
        // The converter does not write the scale of Gemma 3, which is that of its heads.
        let unstated = file.multipliers.scores.is_none();
        if unstated && name == "tiny-gemma3" {
            file.multipliers.scores = config.multipliers.scores;
        }
        // The file of Gemma 4 does not say whether rows of images see each other; the config.json of a model of text does.
        if config.architecture == "gemma4" {
            file.images.joined = config.images.joined;
        }
        // It writes the same context for all models without rotation, and the angles have no use there.
        if file.attention().all(|(_, of)| of.angles.is_none()) {
            file.context = config.context;
            (file.angles, config.angles) = (Vec::new(), Vec::new());
        }
        // It reorders the value heads.
        for layer in &mut file.layers {
            if let Some(MixerShape::DeltaNet(of)) = &mut layer.mixer {
                assert_eq!(of.order, HeadOrder::Tiled);
                of.order = HeadOrder::Grouped;
            }
        }
        assert_eq!(file, config, "{name}");
    }
}

#[test]
fn a_key_that_a_gguf_file_lacks_is_named_with_the_file() {
    for (name, key) in [
        ("tiny-granite", "granite.block_count"),
        ("tiny-lfm2", "lfm2.shortconv.l_cache"),
        ("tiny-qwen3_5", "qwen35.ssm.group_count"),
        ("tiny-granitemoehybrid", "granitehybrid.ssm.inner_size"),
        ("tiny-nemotron_h", "nemotron_h.ssm.state_size"),
        ("tiny-gemma4", "gemma4.attention.sliding_window_pattern"),
        ("tiny-gemma4", "gemma4.rope.freq_base_swa"),
    ] {
        let refused = gguf::of_gguf_without(name, key).expect_err("it is refused");
        let said = refused.to_string();
        let expected = format!("/model.gguf: required key {key} is missing");
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn an_array_of_a_wrong_length_is_refused_with_both_numbers() {
    for (name, key) in [
        ("tiny-granite", "granite.attention.head_count"),
        (
            "tiny-granitemoehybrid",
            "granitehybrid.attention.head_count_kv",
        ),
        ("tiny-nemotron_h", "nemotron_h.feed_forward_length"),
        ("tiny-gemma4", "gemma4.attention.sliding_window_pattern"),
        ("tiny-gemma3", "gemma3.attention.sliding_window_pattern"),
        ("tiny-qwen3_5", "qwen35.attention.recurrent_layers"),
    ] {
        let layers = of_gguf(name).layers.len();
        let more = gguf::flags(&vec![1; layers + 1]);
        let refused = gguf::of_gguf_with(name, &[(key, gguf::ARRAY, &more)]);
        let said = refused.expect_err("it is refused").to_string();
        let expected = format!(
            "{key} = an array of {}: it must have one for each of {layers} layers",
            layers + 1
        );
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn a_list_of_kinds_is_checked() {
    for (name, key, value, expected) in [
        (
            "tiny-llama",
            "hybrid_override_pattern",
            json!("M-M"),
            "hybrid_override_pattern = M: only full_attention",
        ),
        (
            "tiny-nemotron_h",
            "hybrid_override_pattern",
            json!("M-M*-ME"),
            "hybrid_override_pattern = E: models with experts",
        ),
        (
            "tiny-nemotron_h",
            "hybrid_override_pattern",
            json!("M-M*"),
            "hybrid_override_pattern = an array of 4: it must have one for each of 7 layers",
        ),
        (
            "tiny-lfm2",
            "layer_types",
            json!(["conv"]),
            "layer_types = an array of 1: it must have one for each of 5 layers",
        ),
    ] {
        let refused = read(name, |config| config[key] = value);
        let said = refused.expect_err("it is refused");
        assert!(said.contains(expected), "{said}");
    }
}

/// Checks that a config.json without a key describes the model of one with the default. save_pretrained leaves out such
/// keys.
pub(super) fn has_default(name: &str, key: &str, default: &Value) {
    let edit = |value: Option<&Value>| {
        read(name, |config| {
            config["max_position_embeddings"] = json!(8192);
            let members = config.as_object_mut().expect("an object");
            members.remove(key);
            members.extend(value.map(|value| (key.into(), value.clone())));
        })
    };
    let (left_out, stated) = (edit(None), edit(Some(default)));
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

#[test]
fn a_key_that_is_left_out_has_its_familys_default() {
    for (name, key, default) in [
        ("tiny-llama", "rms_norm_eps", json!(1e-6)),
        ("tiny-llama", "num_key_value_heads", json!(4)),
        ("tiny-qwen2", "rms_norm_eps", json!(1e-6)),
        ("tiny-qwen2", "rope_parameters", json!({"rope_theta": 1e4})),
        ("tiny-mistral", "rope_theta", json!(1e4)),
        ("tiny-mistral", "sliding_window", json!(4096)),
        ("tiny-ministral3", "rms_norm_eps", json!(1e-5)),
    ] {
        has_default(name, key, &default);
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

//! Refuses properties of a `config.json` that `forward` does not compute.

use serde_json::{Map, Value};

use crate::model::architecture::{Architecture, Keys as _, layer_kinds};
use crate::model::error::Defect;

/// Objects in a config that do not change the model's results, or that are read elsewhere.
const KNOWN_OBJECTS: [&str; 13] = [
    "time_step_limit",
    "rope_parameters",
    "rope_scaling",
    "text_config",
    "vision_config",
    "audio_config",
    "auto_map",
    "id2label",
    "label2id",
    "task_specific_params",
    "generation_config",
    "transformers.js_config",
    "dtype",
];

/// Keys of a quantized checkpoint, and the method if the key's object names none.
const QUANTIZED: [(&str, &str); 3] = [
    ("quantization_config", "a method that it does not name"),
    ("quantization", "MLX"),
    ("compression_config", "compressed-tensors"),
];

/// Refuses a checkpoint whose weights are not F32, F16 or BF16.
pub(super) fn refuse_quantized(config: &Value) -> Result<(), Defect> {
    let mlx = config.get("quantization").is_some_and(Value::is_object);
    for (key, usual) in QUANTIZED {
        let Some(how) = config.get(key).filter(|how| !how.is_null()) else {
            continue;
        };
        let usual = if mlx { "MLX" } else { usual };
        return Err(Defect::Quantized {
            key: key.into(),
            method: method(how, usual),
        });
    }
    Ok(())
}

/// Returns a method's name, with the bits or the format that the object states.
fn method(how: &Value, usual: &str) -> String {
    let text = |key| how.get(key).and_then(Value::as_str);
    let name = match text("quant_method").unwrap_or(usual) {
        "gptq" => "GPTQ",
        "awq" => "AWQ",
        "fp8" => "FP8",
        "mxfp4" => "MXFP4",
        other => other,
    };
    let set = |key| how.get(key).and_then(Value::as_bool) == Some(true);
    let bits = ["bits", "w_bit", "weight_bits"]
        .into_iter()
        .find_map(|key| how.get(key).and_then(Value::as_u64))
        .or(set("load_in_4bit").then_some(4))
        .or(set("load_in_8bit").then_some(8));
    match (bits, text("format")) {
        (Some(bits), _) => format!("{name} to {bits} bits"),
        (None, Some(format)) => format!("{name} ({format})"),
        (None, None) => name.into(),
    }
}

/// Returns the class in transformers that a config belongs to.
pub(super) fn class(config: &Value) -> Option<&str> {
    config.get("architectures")?.get(0)?.as_str()
}

/// Refuses unsupported properties; `whole` is all of the file, and `config` the part that describes the language model.
pub(super) fn refuse_uncomputed(
    config: &Value,
    whole: &Value,
    architecture: &Architecture,
) -> Result<(), Defect> {
    let refuse = |key: &str, value: &Value, allowed: &str| {
        let value = value.as_str().map_or_else(|| value.to_string(), Into::into);
        let allowed = format!("only {allowed} is computed");
        Err(Defect::bad_value(key, value, allowed))
    };
    let own = |key: &str| architecture.own_keys.contains(&key);
    let activation = if own("hidden_activation") {
        ("hidden_activation", Value::from("gelu_pytorch_tanh"))
    } else {
        ("hidden_act", Value::from("silu"))
    };
    for (key, allowed) in [
        activation,
        ("enable_moe_block", false.into()),
        ("use_sliding_window", false.into()),
        ("mlp_bias", false.into()),
        ("mlp_hidden_act", "relu2".into()),
        ("mamba_hidden_act", "silu".into()),
        ("mamba_conv_bias", true.into()),
        ("use_conv_bias", true.into()),
        ("mamba_proj_bias", false.into()),
        ("use_bias", false.into()),
        ("attn_output_gate", true.into()),
        ("num_experts", 0.into()),
        ("num_local_experts", 0.into()),
        ("is_causal", true.into()),
        ("is_encoder_decoder", false.into()),
    ] {
        let value = config.get(key).filter(|value| !value.is_null());
        if let Some(value) = value.filter(|value| **value != allowed) {
            let allowed = allowed
                .as_str()
                .map_or_else(|| allowed.to_string(), Into::into);
            return refuse(key, value, &allowed);
        }
    }
    let sees_later = "use_bidirectional_attention";
    // Vision concerns the parts of images only.
    let allowed = |value: &Value| *value == false || (own(sees_later) && *value == "vision");
    let value = config.get(sees_later).filter(|value| !value.is_null());
    if let Some(value) = value.filter(|value| !allowed(value)) {
        return refuse(sees_later, value, "false");
    }
    refuse_kinds(config, architecture.layer_types)?;
    let writes = |class: &&str| {
        let ends = ["ForCausalLM", "ForConditionalGeneration"];
        !ends.iter().any(|end| class.ends_with(end))
    };
    if let Some(class) = class(config).or_else(|| class(whole)).filter(writes) {
        let allowed =
            "only a model that writes text is supported (a class that ends in ForCausalLM)";
        return Err(Defect::bad_value("architectures", class, allowed));
    }
    let bounds = "time_step_limit";
    let bounds = (config.get(bounds).and_then(Value::as_array)).map(|list| (bounds, list));
    // Steps are positive, and no step comes near the greatest number.
    let is_open = |list: &[Value]| {
        let [from, to] = list else {
            return false;
        };
        let infinite = to
            .as_f64()
            .map_or(to["__float__"] == "Infinity", |to| to >= 1e30);
        from.as_f64() == Some(0.0) && infinite
    };
    if let Some((key, list)) = bounds.filter(|(_, list)| !is_open(list)) {
        return refuse(key, &Value::from(list.clone()), "0 to infinity");
    }
    let by_layer = "per_layer_config";
    if let Some(layers) = config.get(by_layer).filter(|_| own(by_layer)) {
        for (layer, object) in layers.as_object().into_iter().flatten() {
            let key = format!("{by_layer}.{layer}");
            refuse_members(&key, object, &["head_dim", "num_key_value_heads"])?;
        }
    }
    let known = |key: &str| KNOWN_OBJECTS.contains(&key) || (key == by_layer && own(key));
    refuse_objects(config.as_object(), known)
}

/// Refuses kinds of layers other than the `computed` ones.
fn refuse_kinds(config: &Value, computed: &[&str]) -> Result<(), Defect> {
    let Some((key, kinds)) = layer_kinds(config)? else {
        return Ok(());
    };
    let mut others = kinds.iter().map(String::as_str);
    match others.find(|kind| !computed.contains(kind)) {
        Some(kind @ ("E" | "moe")) => {
            let allowed = "models with experts are not supported";
            Err(Defect::bad_value(key, kind, allowed))
        }
        Some(kind) => {
            let allowed = format!("only {} is computed", computed.join(" and "));
            Err(Defect::bad_value(key, kind, allowed))
        }
        None => Ok(()),
    }
}

/// Refuses unknown objects, which could change any layer.
fn refuse_objects(
    config: Option<&Map<String, Value>>,
    is_known: impl Fn(&str) -> bool,
) -> Result<(), Defect> {
    let holds_more = |value: &Value| match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => items.iter().any(Value::is_object),
        _ => false,
    };
    let members = config.into_iter().flatten();
    let mut unknown = members.filter(|(key, value)| holds_more(value) && !is_known(key));
    match unknown.next() {
        Some((key, value)) => Err(Defect::bad_value(
            key,
            value,
            "it is not known whether this changes the model: take a GGUF file of it",
        )),
        None => Ok(()),
    }
}

/// Refuses unknown members of an object.
pub(super) fn refuse_members(key: &str, object: &Value, known: &[&str]) -> Result<(), Defect> {
    if !object.is_object() && !object.is_null() {
        return Err(Defect::bad_value(key, object, "it must be an object"));
    }
    let members = object.as_object().into_iter().flatten();
    let unknown =
        |(name, value): &(&String, &Value)| !value.is_null() && !known.contains(&name.as_str());
    match members.into_iter().find(unknown) {
        Some((name, value)) => Err(Defect::bad_value(
            format!("{key}.{name}"),
            value,
            "it is not known what this changes: take a GGUF file of the model",
        )),
        None => Ok(()),
    }
}

/// Returns a required number of an object.
pub(super) fn stated(object: &Value, key: &str) -> Result<f64, Defect> {
    let missing = || Defect::MissingKey(format!("{key} of the rope scaling"));
    object.float(key)?.ok_or_else(missing)
}

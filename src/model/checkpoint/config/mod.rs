//! Reads a model's dimensions from Hugging Face's `config.json`, and refuses what `forward` does not compute
//! (`computed`). A missing key has the default of its family's class in transformers, or is an error.
//! Not here: weights, and GGUF files.

mod computed;
mod rope;
pub(super) mod tower;

use std::borrow::Cow;

use serde_json::Value;

use crate::model::architecture::{
    Architecture, Defaults, Keys, check_length, layer_kinds, layer_list,
};
use crate::model::checkpoint::assistant;
use crate::model::error::Defect;
use crate::model::shape::{self, LayerShape, Shape};

/// The content of a `config.json`.
pub(super) struct Described {
    pub(super) shape: Shape,
    pub(super) architecture: &'static Architecture,
    /// Whether the head is the embedding.
    pub(super) tied: bool,
    /// Whether Q, K and V have a bias; `None` if the architecture decides.
    pub(super) biased: Option<bool>,
}

pub(super) fn read(text: &str) -> Result<Described, Defect> {
    let malformed = |error: serde_json::Error| Defect::Malformed(error.to_string());
    let whole: Value = serde_json::from_str(&finite(text)).map_err(malformed)?;
    // A multimodal model describes its language model in an object of its own.
    let text = whole.get("text_config").filter(|part| part.is_object());
    let text = text.unwrap_or(&whole);
    computed::refuse_quantized(&whole)?;
    computed::refuse_quantized(text)?;
    let architecture = architecture(text)?;
    computed::refuse_uncomputed(text, &whole, architecture)?;
    // A family may read what its tower adds to the language model.
    let mut text = text.clone();
    if let (Some(tower), Some(members)) = (whole.get("vision_config"), text.as_object_mut()) {
        members.insert("vision_config".into(), tower.clone());
    }
    let text = &text;
    let Defaults {
        heads,
        vocabulary,
        context,
        epsilon,
        kv_heads,
        head_dim,
        tied,
        ..
    } = architecture.defaults;
    let (hidden, heads) = (
        text.needed("hidden_size")?,
        needed_or(text, "num_attention_heads", heads)?,
    );
    let trained = needed_or(text, "max_position_embeddings", context)?;
    let head_dim = match (text.size("head_dim")?, head_dim) {
        (Some(head_dim), _) => head_dim,
        (None, Some(head_dim)) if !text.has("head_dim") => head_dim,
        (None, _) => hidden.checked_div(heads).unwrap_or(0),
    };
    let named = |key: &'static str| {
        let mut renamed = architecture.renamed.iter();
        let own = renamed.find(|(common, own)| *common == key && text.has(own));
        own.map_or(key, |(_, own)| own)
    };
    let rope = rope::read(text, architecture, trained, head_dim)?;
    let key = named("rms_norm_eps");
    let epsilon = match text.float(key)? {
        Some(epsilon) => epsilon,
        None if text.has(key) => return Err(text.missing(key)),
        None => epsilon,
    };
    let kv_heads = match text.size("num_key_value_heads")? {
        Some(kv_heads) => kv_heads,
        None if text.has("num_key_value_heads") => heads,
        None => kv_heads.unwrap_or(heads),
    };
    let width = text.needed(named("intermediate_size"))?;
    let count = layers(text)?;
    let layer = LayerShape::usual([heads, kv_heads, head_dim], width);
    let shape = Shape {
        hidden,
        layers: vec![layer; shape::layers(count)?],
        vocabulary: needed_or(text, "vocab_size", vocabulary)?,
        context: match rope.scaled_context() {
            0 => trained,
            scaled => scaled,
        },
        #[allow(clippy::cast_possible_truncation)] // the reference computes in float32
        norm_epsilon: epsilon as f32,
        placeholders: placeholders(&whole)?,
        ..Shape::plain(architecture.name)
    };
    let own = |shape: &mut Shape| (architecture.from_config)(text, shape);
    let key = named("tie_word_embeddings");
    let ties = |config: &Value| config.get(key).and_then(Value::as_bool);
    let bias = text.get("attention_bias").and_then(Value::as_bool);
    Ok(Described {
        shape: shape.checked(&rope, own)?,
        architecture,
        tied: ties(text).or_else(|| ties(&whole)).unwrap_or(tied),
        biased: (!architecture.biased).then(|| bias.unwrap_or(false)),
    })
}

/// Reads an assistant's dimensions, and the hidden size of its model; `None` if the file is not of an assistant.
///
/// Its layers are described as those of a model, with K and V of their own.
pub(super) fn read_assistant(text: &str) -> Result<Option<(Described, usize)>, Defect> {
    // A damaged file is reported when it is read as a model's.
    let Ok(mut whole) = serde_json::from_str::<Value>(&finite(text)) else {
        return Ok(None);
    };
    let kind = whole.get("model_type").and_then(Value::as_str);
    if !kind.is_some_and(|kind| assistant::MODEL_TYPES.contains(&kind)) {
        return Ok(None);
    }
    let key = "backbone_hidden_size";
    let hidden = whole.size(key)?.ok_or_else(|| whole.missing(key))?;
    let missing = whole.missing("text_config");
    let own = whole.get_mut("text_config").and_then(Value::as_object_mut);
    let own = own.ok_or(missing)?;
    // The classes of both kinds of Gemma 4 are alike.
    own.insert("model_type".into(), "gemma4_text".into());
    // No assistant has additional inputs of layers.
    own.insert("hidden_size_per_layer_input".into(), 0.into());
    Ok(Some((read(&whole.to_string())?, hidden)))
}

/// Replaces infinite numbers, which Python writes and JSON lacks, by the greatest finite one.
fn finite(text: &str) -> Cow<'_, str> {
    const INFINITY: &str = "Infinity";
    if !text.contains(INFINITY) {
        return text.into();
    }
    let mut quoted = false;
    let mut parts = text.split('"').peekable();
    let mut finite = String::new();
    while let Some(part) = parts.next() {
        if quoted {
            finite.push_str(part);
        } else {
            finite.push_str(&part.replace(INFINITY, "1.7976931348623157e308"));
        }
        if parts.peek().is_some() {
            finite.push('"');
        }
        // A quotation mark after a backslash is part of a text.
        quoted = !quoted || part.ends_with('\\');
    }
    finite.into()
}

/// Returns the tokens that stand for parts of images, videos and sound.
fn placeholders(whole: &Value) -> Result<Vec<u32>, Defect> {
    const KEYS: [&str; 4] = [
        "image_token_id",
        "image_token_index",
        "video_token_id",
        "audio_token_id",
    ];
    let mut tokens = Vec::new();
    for key in KEYS {
        let token = whole.size(key)?.map(u32::try_from);
        tokens.extend(token.and_then(Result::ok));
    }
    Ok(tokens)
}

/// Returns the number of layers. A list of their kinds may stand for it.
fn layers(config: &Value) -> Result<usize, Defect> {
    let key = "num_hidden_layers";
    let count = match (config.size(key)?, layer_kinds(config)?) {
        (Some(count), _) => count,
        (None, Some((_, kinds))) => kinds.len(),
        (None, None) => return Err(config.missing(key)),
    };
    layer_list(config, count)?;
    Ok(count)
}

/// Returns a size that a file may leave out if its family has a default.
fn needed_or(config: &Value, key: &str, default: Option<usize>) -> Result<usize, Defect> {
    let left_out = !config.has(key);
    let size = config.size(key)?.or(default.filter(|_| left_out));
    size.ok_or_else(|| config.missing(key))
}

fn architecture(config: &Value) -> Result<&'static Architecture, Defect> {
    let class = computed::class(config);
    let kind = config.get("model_type").and_then(Value::as_str);
    let name = kind
        .map(str::to_owned)
        .or_else(|| class.map(|class| class.trim_end_matches("ForCausalLM").to_lowercase()))
        .ok_or_else(|| config.missing("model_type"))?;
    Architecture::of_config(name)
}

impl Keys for Value {
    fn named(&self, key: &str) -> String {
        key.into()
    }

    fn has(&self, key: &str) -> bool {
        within(self, key).is_some()
    }

    fn is_list(&self, key: &str) -> bool {
        within(self, key).is_some_and(Self::is_array)
    }

    fn size(&self, key: &str) -> Result<Option<usize>, Defect> {
        found(self, key, "it must be a whole number", |value| {
            value.as_u64().and_then(|value| usize::try_from(value).ok())
        })
    }

    fn float(&self, key: &str) -> Result<Option<f64>, Defect> {
        found(self, key, "it must be a number", Value::as_f64)
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, Defect> {
        found(self, key, "it must be true or false", Value::as_bool)
    }

    fn flags(&self, key: &str, count: usize) -> Result<Option<Vec<bool>>, Defect> {
        let flag = |value: &Value| value.as_bool().or(value.as_u64().map(|value| value != 0));
        let flags = found(self, key, "it must be an array of 0 and 1", |value| {
            value
                .as_array()?
                .iter()
                .map(flag)
                .collect::<Option<Vec<_>>>()
        })?;
        let length = flags.as_ref().map_or(count, Vec::len);
        check_length(key, length, count).map(|()| flags)
    }

    fn has_tensor(&self, _: &str) -> bool {
        false
    }

    fn sizes(&self, key: &str) -> Result<Option<Vec<usize>>, Defect> {
        let size = |value: &Value| usize::try_from(value.as_u64()?).ok();
        found(self, key, "it must be an array of whole numbers", |value| {
            value.as_array()?.iter().map(size).collect()
        })
    }

    fn word(&self, key: &str) -> Result<Option<String>, Defect> {
        found(self, key, "it must be a text", |value| {
            value.as_str().map(str::to_owned)
        })
    }

    fn words(&self, key: &str) -> Result<Option<Vec<String>>, Defect> {
        let word = |value: &Value| value.as_str().map(str::to_owned);
        found(self, key, "it must be an array of words", |value| {
            value.as_array()?.iter().map(word).collect()
        })
    }
}

fn within<'a>(config: &'a Value, key: &str) -> Option<&'a Value> {
    let mut parts = key.split('.');
    parts.try_fold(config, |within, part| within.get(part))
}

fn found<T>(
    config: &Value,
    key: &str,
    allowed: &str,
    convert: impl Fn(&Value) -> Option<T>,
) -> Result<Option<T>, Defect> {
    let Some(value) = within(config, key).filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let bad = || Defect::bad_value(key, value, allowed);
    convert(value).map(Some).ok_or_else(bad)
}

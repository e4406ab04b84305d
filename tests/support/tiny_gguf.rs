//! The golden model tiny-llama3-rope as a GGUF file, in the form of llama.cpp's converter. A program with this module
//! needs no other file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use serde_json::Value;

use super::gguf_writer::{F32, GgufWriter};

const CONFIG: &str = include_str!("../golden/tiny-llama3-rope/config.json");
const WEIGHTS: &[u8] = include_bytes!("../golden/tiny-llama3-rope/model.safetensors");

const TEMPLATE: &str = "tokenizer.chat_template";

/// Writes a model into `directory` whose keys have outliers that no query meets: they change nothing in f16, and erase
/// all other values of a key in q8_0.
pub(crate) fn with_outlier_keys(directory: &Path) -> PathBuf {
    let path = directory.join("outliers.gguf");
    std::fs::write(&path, convert_with("outliers", true).file()).unwrap();
    path
}

/// Writes it into `directory`, without a vocabulary.
pub(crate) fn tiny_llama3_rope(directory: &Path) -> PathBuf {
    let path = directory.join("tiny-llama3-rope.gguf");
    std::fs::write(&path, convert("tiny").file()).unwrap();
    path
}

/// Returns the model with a vocabulary of byte-level BPE and a chat template.
pub(crate) fn with_vocabulary() -> GgufWriter {
    speaking("tiny", 0)
}

/// Returns the model with its first matrix in another number format; its values are not used.
pub(crate) fn of_type(kind: u32) -> GgufWriter {
    let mut gguf = with_vocabulary();
    gguf.set_type("blk.0.attn_k.weight", kind);
    gguf
}

/// Returns the model with another chat template.
pub(crate) fn with_template(template: &str) -> GgufWriter {
    with_tokens(template, &[])
}

/// Returns the model with more tokens, which no text contains and which have no text.
pub(crate) fn with_tokens(template: &str, more: &[&str]) -> GgufWriter {
    let mut gguf = without_template("tiny", 0, more);
    gguf.string(TEMPLATE, template);
    gguf
}

/// Returns the model under another name, with the byte tokens in another order, so that it answers each text
/// differently.
pub(crate) fn speaking(name: &str, first_byte: usize) -> GgufWriter {
    let mut gguf = without_template(name, first_byte, &[]);
    gguf.string(
        TEMPLATE,
        "{% for message in messages %}<|start|>{{ message.role }}: {{ message.content }}<|end|>{% endfor %}\
         {% if add_generation_prompt %}<|start|>{% endif %}",
    );
    gguf
}

fn without_template(name: &str, first_byte: usize, more: &[&str]) -> GgufWriter {
    let mut gguf = convert(name);
    add_vocabulary(&mut gguf, first_byte, more);
    gguf
}

/// Adds a vocabulary of 512 tokens to a model without one.
pub(crate) fn add_vocabulary(gguf: &mut GgufWriter, first_byte: usize, more: &[&str]) {
    let mut tokens = vocabulary(512);
    for (token, one) in tokens.iter_mut().rev().zip(more) {
        (*one).clone_into(token);
    }
    tokens[2..][..256].rotate_left(first_byte);
    let merges = ["h e".into(), "l l".into(), "ll o".into(), "he llo".into()];
    let types: Vec<i32> = tokens
        .iter()
        .map(|token| {
            let named = token.starts_with("<|") || more.contains(&token.as_str());
            if named { 3 } else { 1 }
        })
        .collect();
    gguf.string("tokenizer.ggml.model", "gpt2")
        .string("tokenizer.ggml.pre", "smollm")
        .strings("tokenizer.ggml.tokens", &tokens)
        .i32s("tokenizer.ggml.token_type", &types)
        .strings("tokenizer.ggml.merges", &merges)
        .u32("tokenizer.ggml.bos_token_id", 0)
        .u32("tokenizer.ggml.eos_token_id", 1)
        .bool("tokenizer.ggml.add_bos_token", false);
}

/// Control tokens, the 256 bytes in GPT-2's spelling, four merges, and tokens that no text contains.
fn vocabulary(size: usize) -> Vec<String> {
    let mut tokens: Vec<String> = ["<|start|>", "<|end|>"].map(String::from).into();
    let mut unprintable = 0x100..;
    tokens.extend((0_u8..=255).map(|byte| {
        match byte {
            b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte).to_string(),
            _ => char::from_u32(unprintable.next().unwrap())
                .unwrap()
                .to_string(),
        }
    }));
    tokens.extend(["he", "ll", "llo", "hello"].map(String::from));
    tokens.extend((tokens.len()..size).map(|id| format!("<|unused {id}|>")));
    tokens
}

fn convert(name: &str) -> GgufWriter {
    convert_with(name, false)
}

fn convert_with(name: &str, outliers: bool) -> GgufWriter {
    let config: Value = serde_json::from_str(CONFIG).unwrap();
    let size = |key: &str| usize::try_from(config[key].as_u64().unwrap()).unwrap();
    let (heads, kv_heads, head_dim) = (
        size("num_attention_heads"),
        size("num_key_value_heads"),
        size("head_dim"),
    );

    let mut gguf = GgufWriter::default();
    gguf.string("general.architecture", "llama")
        .string("general.name", name);
    for (key, from) in [
        ("llama.block_count", "num_hidden_layers"),
        ("llama.context_length", "max_position_embeddings"),
        ("llama.embedding_length", "hidden_size"),
        ("llama.feed_forward_length", "intermediate_size"),
        ("llama.attention.head_count", "num_attention_heads"),
        ("llama.attention.head_count_kv", "num_key_value_heads"),
        ("llama.attention.key_length", "head_dim"),
        ("llama.rope.dimension_count", "head_dim"),
    ] {
        gguf.u32(key, size(from).try_into().unwrap());
    }
    gguf.f32("llama.attention.layer_norm_rms_epsilon", 1e-5);
    gguf.f32("llama.rope.freq_base", 500_000.0);

    let factors = rope_factors(&config["rope_parameters"], head_dim);
    let factors: Vec<u8> = factors
        .iter()
        .flat_map(|factor| factor.to_le_bytes())
        .collect();
    gguf.tensor("rope_freqs.weight", &[head_dim / 2], F32, &factors);
    let weights = SafeTensors::deserialize(WEIGHTS).unwrap();
    // In a fixed order, so that a fixed seed damages the same bytes each time.
    let tensors: BTreeMap<_, _> = weights.iter().collect();
    for (name, tensor) in tensors {
        let name = gguf_name(name);
        let data = match name.rsplit_once('.').unwrap().0 {
            q if q.ends_with("attn_q") => interleave(tensor.data(), heads, head_dim),
            k if k.ends_with("attn_k") => interleave(tensor.data(), kv_heads, head_dim),
            _ => tensor.data().to_vec(),
        };
        let data = match name.rsplit_once('.').unwrap().0 {
            q if outliers && q.ends_with("attn_q") => scaled(&data, (heads, head_dim), [0.0, 4.0]),
            k if outliers && k.ends_with("attn_k") => {
                scaled(&data, (kv_heads, head_dim), [1e3, 1.0])
            }
            _ => data,
        };
        gguf.tensor(&name, tensor.shape(), F32, &data);
    }
    gguf
}

fn gguf_name(name: &str) -> String {
    [
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("model.layers", "blk"),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
    ]
    .iter()
    .fold(name.to_owned(), |name, (from, to)| name.replace(from, to))
}

/// Interleaves the first and second half of each head's rows.
fn interleave(rows: &[u8], heads: usize, head_dim: usize) -> Vec<u8> {
    let row_bytes = rows.len() / (heads * head_dim);
    let row = |index: usize| &rows[index * row_bytes..][..row_bytes];
    (0..heads)
        .flat_map(|head| (0..head_dim / 2).map(move |pair| head * head_dim + pair))
        .flat_map(|first| [row(first), row(first + head_dim / 2)].concat())
        .collect()
}

/// Multiplies the first pair of rows of each head by the first factor, the others by the second.
fn scaled(rows: &[u8], (heads, head_dim): (usize, usize), [first, others]: [f32; 2]) -> Vec<u8> {
    let row_bytes = rows.len() / (heads * head_dim);
    let rows = rows.chunks_exact(row_bytes).enumerate();
    rows.flat_map(|(row, bytes)| {
        let factor = if row % head_dim < 2 { first } else { others };
        let values = bytes.as_chunks().0.iter();
        values.flat_map(move |bytes| (factor * f32::from_le_bytes(*bytes)).to_le_bytes())
    })
    .collect()
}

/// Returns the converter's divisor of each frequency.
fn rope_factors(rope: &Value, head_dim: usize) -> Vec<f32> {
    let number = |key: &str| rope[key].as_f64().unwrap();
    let (factor, context) = (number("factor"), number("original_max_position_embeddings"));
    let (low, high) = (number("low_freq_factor"), number("high_freq_factor"));
    (0..head_dim)
        .step_by(2)
        .map(|i| {
            #[allow(clippy::cast_precision_loss)] // head_dim is 16
            let frequency = number("rope_theta").powf(-(i as f64) / head_dim as f64);
            let wavelength = std::f64::consts::TAU / frequency;
            if wavelength < context / high {
                1.0
            } else if wavelength > context / low {
                factor
            } else {
                let smooth = (context / wavelength - low) / (high - low);
                1.0 / ((1.0 - smooth) / factor + smooth)
            }
        })
        .map(|factor| {
            #[allow(clippy::cast_possible_truncation)] // stored as f32
            let factor = factor as f32;
            factor
        })
        .collect()
}

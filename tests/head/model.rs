//! The golden model tiny-qwen3_5 with a head of random weights, in the form of transformers and in that of llama.cpp.
//!
//! Its first logits are its hidden states: the matrix of the logits begins with the identity.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors, serialize_to_file};
use serde_json::Value;

use crate::support::gguf_writer::{F32, GgufWriter};

pub(crate) const HIDDEN: usize = 64;
pub(crate) const VOCABULARY: usize = 512;
pub(crate) const HEADS: usize = 4;
pub(crate) const KV_HEADS: usize = 2;
pub(crate) const HEAD_DIM: usize = 32;
const WIDTH: usize = 128;
/// Key heads and value heads of the recurrent layers.
const LINEAR: [usize; 2] = [2, 4];

/// A tensor: its shape and its values.
pub(crate) type Tensor = (Vec<usize>, Vec<f32>);
/// Tensors by the names of transformers.
pub(crate) type Tensors = BTreeMap<String, Tensor>;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tiny-qwen3_5")
}

/// Returns the tensors of the model and of its head.
pub(crate) fn tensors() -> Tensors {
    let bytes = std::fs::read(golden().join("model.safetensors")).expect("golden data");
    let stored = SafeTensors::deserialize(&bytes).expect("golden data is well formed");
    let floats = |view: &TensorView<'_>| {
        let words = view.data().as_chunks::<4>().0.iter();
        words.map(|word| f32::from_le_bytes(*word)).collect()
    };
    let mut all: Tensors = stored
        .tensors()
        .into_iter()
        .map(|(name, view)| (name, (view.shape().to_vec(), floats(&view))))
        .collect();
    let mut random = fastrand::Rng::with_seed(41);
    let mut add = |name: &str, shape: &[usize], spread: f32| {
        let count = shape.iter().product();
        let values = (0..count).map(|_| spread * (2.0 * random.f32() - 1.0));
        all.insert(name.into(), (shape.to_vec(), values.collect()));
    };
    let (query, kv) = (HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM);
    add("lm_head.weight", &[VOCABULARY, HIDDEN], 0.3);
    for norm in ["pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"] {
        add(&format!("mtp.{norm}.weight"), &[HIDDEN], 0.5);
    }
    add("mtp.fc.weight", &[HIDDEN, 2 * HIDDEN], 0.2);
    for norm in ["input_layernorm", "post_attention_layernorm"] {
        add(&format!("mtp.layers.0.{norm}.weight"), &[HIDDEN], 0.5);
    }
    for (name, rows, columns) in [
        ("self_attn.q_proj", 2 * query, HIDDEN),
        ("self_attn.k_proj", kv, HIDDEN),
        ("self_attn.v_proj", kv, HIDDEN),
        ("self_attn.o_proj", HIDDEN, query),
        ("mlp.gate_proj", WIDTH, HIDDEN),
        ("mlp.up_proj", WIDTH, HIDDEN),
        ("mlp.down_proj", HIDDEN, WIDTH),
    ] {
        add(
            &format!("mtp.layers.0.{name}.weight"),
            &[rows, columns],
            0.3,
        );
    }
    for norm in ["q_norm", "k_norm"] {
        add(
            &format!("mtp.layers.0.self_attn.{norm}.weight"),
            &[HEAD_DIM],
            0.5,
        );
    }
    if let Some((_, head)) = all.get_mut("lm_head.weight") {
        for (row, values) in head.chunks_exact_mut(HIDDEN).take(HIDDEN).enumerate() {
            values.fill(0.0);
            values[row] = 1.0;
        }
    }
    all
}

/// Returns the tensors with an embedding of the head's own.
pub(crate) fn with_own_embedding() -> Tensors {
    let mut all = tensors();
    let mut random = fastrand::Rng::with_seed(43);
    let values = (0..VOCABULARY * HIDDEN).map(|_| 2.0 * random.f32() - 1.0);
    let embedding = (vec![VOCABULARY, HIDDEN], values.collect());
    all.insert("mtp.embed_tokens.weight".into(), embedding);
    all
}

/// Returns the tensors with a second layer that guesses tokens.
pub(crate) fn with_two_layers() -> Tensors {
    let mut all = tensors();
    let second = all.iter().filter_map(|(name, (shape, values))| {
        let name = name.strip_prefix("mtp.layers.0.")?;
        let values = values.iter().map(|value| -value).collect();
        Some((format!("mtp.layers.1.{name}"), (shape.clone(), values)))
    });
    let second: Vec<(String, Tensor)> = second.collect();
    all.extend(second);
    all
}

/// Returns the number of layers that guess tokens.
fn head_layers(tensors: &Tensors) -> u32 {
    let layers = tensors.keys().filter(|name| {
        name.starts_with("mtp.layers.") && name.ends_with(".input_layernorm.weight")
    });
    layers.count().try_into().expect("they are few")
}

/// Writes the model as transformers does into a folder.
pub(crate) fn safetensors(folder: &Path) -> PathBuf {
    safetensors_of(folder, tensors())
}

/// Writes these tensors as transformers does into a folder.
pub(crate) fn safetensors_of(folder: &Path, tensors: Tensors) -> PathBuf {
    let text = std::fs::read_to_string(golden().join("config.json")).expect("golden data");
    let mut config: Value = serde_json::from_str(&text).expect("golden data is well formed");
    config["tie_word_embeddings"] = false.into();
    config["mtp_num_hidden_layers"] = head_layers(&tensors).into();
    std::fs::write(folder.join("config.json"), config.to_string()).expect("it is written");
    let tensors = tensors.into_iter().map(|(name, (shape, values))| {
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        (name, shape, bytes)
    });
    let tensors: Vec<_> = tensors.collect();
    let views = tensors.iter().map(|(name, shape, bytes)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes).expect("they fit");
        (name.as_str(), view)
    });
    serialize_to_file(views, None, &folder.join("model.safetensors")).expect("it is written");
    folder.to_owned()
}

/// Writes these tensors as llama.cpp's converter does into a folder.
pub(crate) fn gguf_of(folder: &Path, tensors: Tensors) -> PathBuf {
    let path = folder.join("model.gguf");
    std::fs::write(&path, writer(tensors).file()).expect("it is written");
    path
}

/// Returns a file as llama.cpp's converter writes it, of these tensors, without a vocabulary.
pub(crate) fn writer(tensors: Tensors) -> GgufWriter {
    let mut gguf = GgufWriter::default();
    gguf.string("general.architecture", "qwen35");
    let layers = head_layers(&tensors);
    for (key, value) in [
        ("block_count", 4 + layers),
        ("nextn_predict_layers", layers),
        ("context_length", 512),
        ("embedding_length", 64),
        ("feed_forward_length", 128),
        ("attention.head_count", 4),
        ("attention.head_count_kv", 2),
        ("attention.key_length", 32),
        ("attention.value_length", 32),
        ("rope.dimension_count", 8),
        ("ssm.conv_kernel", 4),
        ("ssm.state_size", 32),
        ("ssm.group_count", 2),
        ("ssm.time_step_rank", 4),
        ("ssm.inner_size", 128),
        ("full_attention_interval", 4),
    ] {
        gguf.u32(&format!("qwen35.{key}"), value);
    }
    gguf.i32s("qwen35.rope.dimension_sections", &[2, 1, 1, 0]);
    gguf.f32("qwen35.rope.freq_base", 1e7);
    gguf.f32("qwen35.attention.layer_norm_rms_epsilon", 1e-6);
    for (name, (shape, values)) in tensors {
        let (name, values) = converted(&name, values);
        // A convolution has no middle dimension there.
        let shape: Vec<_> = shape.into_iter().filter(|size| *size > 1).collect();
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        gguf.tensor(&name, &shape, F32, &bytes);
    }
    gguf
}

/// Returns a tensor's name and values in a GGUF file.
fn converted(name: &str, values: Vec<f32>) -> (String, Vec<f32>) {
    let [key_heads, value_heads] = LINEAR;
    let keys = 2 * key_heads * HEAD_DIM;
    let to = match name {
        "model.embed_tokens.weight" => "token_embd.weight".into(),
        "model.norm.weight" => "output_norm.weight".into(),
        "lm_head.weight" => "output.weight".into(),
        _ => {
            let of_model = name.strip_prefix("model.layers.").map(|rest| (0, rest));
            let of_head = name.strip_prefix("mtp.layers.").map(|rest| (4, rest));
            let (first, rest) = of_model.or(of_head).unwrap_or((4, name));
            let (layer, rest) = rest
                .split_once('.')
                .filter(|(layer, _)| layer.parse::<usize>().is_ok())
                .unwrap_or(("0", rest));
            let layer = first + layer.parse::<usize>().expect("it is a number");
            format!("blk.{layer}.{}", of_layer(rest))
        }
    };
    let values = match name.rsplit_once("linear_attn.").map(|(_, rest)| rest) {
        // The values of heads follow the keys of all of them.
        Some("in_proj_qkv.weight") => tiled(&values, (keys, HIDDEN), HEAD_DIM * HIDDEN),
        Some("conv1d.weight") => tiled(&values, (keys, 4), HEAD_DIM * 4),
        Some("in_proj_z.weight") => tiled(&values, (0, 0), HEAD_DIM * HIDDEN),
        Some("in_proj_a.weight" | "in_proj_b.weight") => tiled(&values, (0, 0), HIDDEN),
        Some("dt_bias") => tiled(&values, (0, 0), 1),
        Some("A_log") => {
            let decays: Vec<_> = values.iter().map(|value| -value.exp()).collect();
            tiled(&decays, (0, 0), 1)
        }
        Some("out_proj.weight") => {
            let rows = values.chunks_exact(value_heads * HEAD_DIM);
            rows.flat_map(|row| tiled(row, (0, 0), HEAD_DIM)).collect()
        }
        // Norms hold the factor itself.
        None if name.contains("norm") => values.into_iter().map(|value| 1.0 + value).collect(),
        _ => values,
    };
    (to, values)
}

/// Orders heads of `each` values, after `skipped` ones, so that they take turns with the key heads.
fn tiled(values: &[f32], skipped: (usize, usize), each: usize) -> Vec<f32> {
    let [key_heads, value_heads] = LINEAR;
    let (first, heads) = values.split_at(skipped.0 * skipped.1);
    let shared = value_heads / key_heads;
    let ordered = (0..value_heads).flat_map(|head| {
        let from = head % key_heads * shared + head / key_heads;
        heads[from * each..][..each].iter().copied()
    });
    first.iter().copied().chain(ordered).collect()
}

fn of_layer(name: &str) -> &str {
    match name {
        "input_layernorm.weight" => "attn_norm.weight",
        "post_attention_layernorm.weight" => "post_attention_norm.weight",
        "mlp.gate_proj.weight" => "ffn_gate.weight",
        "mlp.up_proj.weight" => "ffn_up.weight",
        "mlp.down_proj.weight" => "ffn_down.weight",
        "self_attn.q_proj.weight" => "attn_q.weight",
        "self_attn.k_proj.weight" => "attn_k.weight",
        "self_attn.v_proj.weight" => "attn_v.weight",
        "self_attn.o_proj.weight" => "attn_output.weight",
        "self_attn.q_norm.weight" => "attn_q_norm.weight",
        "self_attn.k_norm.weight" => "attn_k_norm.weight",
        "linear_attn.in_proj_qkv.weight" => "attn_qkv.weight",
        "linear_attn.in_proj_z.weight" => "attn_gate.weight",
        "linear_attn.in_proj_a.weight" => "ssm_alpha.weight",
        "linear_attn.in_proj_b.weight" => "ssm_beta.weight",
        "linear_attn.conv1d.weight" => "ssm_conv1d.weight",
        "linear_attn.dt_bias" => "ssm_dt.bias",
        "linear_attn.A_log" => "ssm_a",
        "linear_attn.norm.weight" => "ssm_norm.weight",
        "linear_attn.out_proj.weight" => "ssm_out.weight",
        "mtp.embed_tokens.weight" => "nextn.embed_tokens.weight",
        "mtp.fc.weight" => "nextn.eh_proj.weight",
        "mtp.pre_fc_norm_embedding.weight" => "nextn.enorm.weight",
        "mtp.pre_fc_norm_hidden.weight" => "nextn.hnorm.weight",
        "mtp.norm.weight" => "nextn.shared_head_norm.weight",
        "mtp.shared_head.head.weight" => "nextn.shared_head_head.weight",
        other => unreachable!("the model has no {other}"),
    }
}

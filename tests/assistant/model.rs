//! The assistant of the golden model tiny-gemma4, in the form of transformers and in that of llama.cpp, and one that is right.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ganglion::quant::Format;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors, serialize_to_file};
use serde_json::Value;

use crate::support::gguf_writer::{F32, GgufWriter};

const HIDDEN: usize = 32;
const LAYERS: usize = 3;

/// A tensor: its shape and its values.
type Tensor = (Vec<usize>, Vec<f32>);
/// Tensors by the names of transformers.
type Tensors = BTreeMap<String, Tensor>;

pub(crate) fn golden(name: &str) -> PathBuf {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    golden.join(name)
}

/// Returns the tensors of floats of a golden model.
fn tensors(name: &str) -> Tensors {
    let bytes = std::fs::read(golden(name).join("model.safetensors")).expect("golden data");
    let stored = SafeTensors::deserialize(&bytes).expect("golden data is well formed");
    let values = |view: &TensorView<'_>| {
        let format = match view.dtype() {
            Dtype::F32 => Format::F32,
            Dtype::F16 => Format::F16,
            _ => return None,
        };
        let mut values = vec![0.0; view.shape().iter().product()];
        format.dequantize(view.data(), &mut values);
        Some((view.shape().to_vec(), values))
    };
    let tensors = stored.tensors().into_iter();
    tensors
        .filter_map(|(name, view)| Some((name, values(&view)?)))
        .collect()
}

/// Writes the assistant as llama.cpp's converter does into a folder.
pub(crate) fn gguf(folder: &Path) -> PathBuf {
    let path = folder.join("assistant.gguf");
    std::fs::write(&path, writer(64).file()).expect("it is written");
    path
}

/// Returns the assistant as llama.cpp's converter writes it, as that of a model with `hidden` columns.
pub(crate) fn writer(hidden: u32) -> GgufWriter {
    const NAME: &str = "gemma4-assistant";
    let mut gguf = GgufWriter::default();
    gguf.string("general.architecture", NAME);
    for (key, value) in [
        ("block_count", 3),
        ("nextn_predict_layers", 3),
        ("context_length", 512),
        ("embedding_length", 32),
        ("embedding_length_out", hidden),
        ("feed_forward_length", 48),
        ("attention.head_count", 4),
        ("attention.head_count_kv", 1),
        ("attention.key_length", 32),
        ("attention.value_length", 32),
        ("attention.key_length_swa", 16),
        ("attention.value_length_swa", 16),
        ("attention.sliding_window", 16),
        ("attention.shared_kv_layers", 3),
        ("rope.dimension_count", 32),
        ("rope.dimension_count_swa", 16),
    ] {
        gguf.u32(&format!("{NAME}.{key}"), value);
    }
    for (key, value) in [
        ("attention.layer_norm_rms_epsilon", 1e-6),
        ("rope.freq_base", 1e6),
        ("rope.freq_base_swa", 1e4),
    ] {
        gguf.f32(&format!("{NAME}.{key}"), value);
    }
    let pattern = format!("{NAME}.attention.sliding_window_pattern");
    gguf.bools(&pattern, &[true, true, false]);
    for (name, (shape, values)) in tensors("assistant") {
        if let Some(name) = converted(&name) {
            gguf.tensor(&name, &shape, F32, &bytes(&values));
        }
    }
    // A quarter of the pairs rotate in the layer that sees all positions.
    let factors: Vec<_> = (0..16)
        .map(|pair| if pair < 4 { 1.0 } else { 1e30 })
        .collect();
    gguf.tensor("rope_freqs.weight", &[16], F32, &bytes(&factors));
    gguf
}

/// Returns a tensor's name in a GGUF file; `None` if it has none there.
fn converted(name: &str) -> Option<String> {
    let own = match name {
        "model.embed_tokens.weight" => "token_embd.weight",
        "model.norm.weight" => "output_norm.weight",
        "pre_projection.weight" => "nextn.pre_projection.weight",
        "post_projection.weight" => "nextn.post_projection.weight",
        _ => {
            let (layer, rest) = name.strip_prefix("model.layers.")?.split_once('.')?;
            let rest = match rest {
                "input_layernorm.weight" => "attn_norm.weight",
                "self_attn.q_proj.weight" => "attn_q.weight",
                "self_attn.q_norm.weight" => "attn_q_norm.weight",
                "self_attn.o_proj.weight" => "attn_output.weight",
                "post_attention_layernorm.weight" => "post_attention_norm.weight",
                "pre_feedforward_layernorm.weight" => "ffn_norm.weight",
                "post_feedforward_layernorm.weight" => "post_ffw_norm.weight",
                "mlp.gate_proj.weight" => "ffn_gate.weight",
                "mlp.up_proj.weight" => "ffn_up.weight",
                "mlp.down_proj.weight" => "ffn_down.weight",
                "layer_scalar" => "layer_output_scale.weight",
                other => unreachable!("the assistant has no {other}"),
            };
            return Some(format!("blk.{layer}.{rest}"));
        }
    };
    Some(own.to_owned())
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

/// Writes an assistant into a folder that guesses for each token the one that followed it last in `said`.
///
/// Its layers add nothing. Its hidden state is the embedding of the token, and its matrix of logits has the embedding of each
/// token in the row of the one that follows.
pub(crate) fn following(folder: &Path, said: &[u32]) -> PathBuf {
    let mut all = tensors("assistant");
    let (shape, embedding) = &tensors("tiny-gemma4")["model.embed_tokens.weight"];
    let wide = shape[1];
    let mut next: BTreeMap<u32, u32> = BTreeMap::new();
    next.extend(said.windows(2).map(|pair| (pair[0], pair[1])));
    let mut head = vec![0.0; embedding.len()];
    for (token, next) in next {
        let from = &embedding[token as usize * wide..][..wide];
        let norm: f32 = from.iter().map(|value| value * value).sum();
        let to = &mut head[next as usize * wide..][..wide];
        to.iter_mut()
            .zip(from)
            .for_each(|(to, from)| *to += from / norm);
    }
    let join: Vec<_> = (0..wide * 2 * wide)
        .map(|at| f32::from(u8::from(at % (2 * wide) == at / (2 * wide))))
        .collect();
    // Columns and rows of the hidden size become wide.
    for (name, (shape, values)) in &mut all {
        for size in shape.iter_mut().filter(|size| **size == HIDDEN) {
            // The heads of the last layer are as wide as the hidden states were.
            if !name.ends_with("q_norm.weight") {
                *size = wide;
            }
        }
        let adds = name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
        *values = vec![if adds { 0.0 } else { 1.0 }; shape.iter().product()];
    }
    all.insert("model.embed_tokens.weight".into(), (shape.clone(), head));
    all.insert("pre_projection.weight".into(), (vec![wide, 2 * wide], join));
    let back = (vec![wide, wide], vec![0.0; wide * wide]);
    all.insert("post_projection.weight".into(), back);
    assert_eq!(all.len(), 5 + 11 * LAYERS);

    let text = std::fs::read_to_string(golden("assistant/config.json")).expect("golden data");
    let mut config: Value = serde_json::from_str(&text).expect("golden data is well formed");
    config["text_config"]["hidden_size"] = wide.into();
    let path = folder.join("following");
    std::fs::create_dir(&path).expect("it is new");
    std::fs::write(path.join("config.json"), config.to_string()).expect("it is written");
    let all: Vec<_> = all
        .into_iter()
        .map(|(name, (shape, values))| (name, shape, bytes(&values)))
        .collect();
    let views = all.iter().map(|(name, shape, bytes)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes).expect("they fit");
        (name.as_str(), view)
    });
    serialize_to_file(views, None, &path.join("model.safetensors")).expect("it is written");
    path
}

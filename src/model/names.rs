//! The names of weights in GGUF files and in Hugging Face's files, for each kind of mixer.

use crate::model::weights::{
    Attention, DeltaNet, LayerInput, LayerInputs, Linear, Mamba2, Mlp, ShortConv,
};

/// A naming scheme: the layer's names follow `layer_prefix` and its number.
#[derive(Debug)]
pub(in crate::model) struct Names {
    /// Prefixes of all names, and of the head's name. Multimodal models have further parts with other prefixes.
    pub(in crate::model) prefixes: &'static [[&'static str; 2]],
    pub(in crate::model) embedding: &'static str,
    pub(in crate::model) layer_inputs: LayerInputs<&'static str>,
    pub(in crate::model) output_norm: &'static str,
    pub(in crate::model) head: &'static str,
    pub(in crate::model) layer_prefix: &'static str,
    pub(in crate::model) attention: Attention<&'static str>,
    pub(in crate::model) delta_net: DeltaNet<&'static str>,
    pub(in crate::model) mamba2: Mamba2<&'static str>,
    pub(in crate::model) short_conv: ShortConv<&'static str>,
    pub(in crate::model) mlp: Mlp<&'static str>,
    pub(in crate::model) layer_input: LayerInput<&'static str>,
    /// The factor of a layer's result. Files may leave it out.
    pub(in crate::model) layer_scale: Option<&'static str>,
    /// The tensor that holds the rows of Q, K and V one after the other.
    pub(in crate::model) joined_qkv: Option<&'static str>,
    /// The tensor that holds the rows of gate and up one after the other.
    pub(in crate::model) joined_mlp: Option<&'static str>,
    /// What is added to the stored values of norms.
    pub(in crate::model) norms_added: f32,
    /// Whether the decay of recurrent mixers is stored as its logarithm A, rather than -exp(A).
    pub(in crate::model) logarithms: bool,
    /// Tensors of a layer that change its result and that `forward` does not support.
    pub(in crate::model) refused: &'static [&'static str],
    /// The head that guesses tokens, in families that have one.
    pub(in crate::model) guess: Option<GuessNames>,
}

/// The names of a head that guesses tokens.
#[derive(Debug)]
pub(in crate::model) struct GuessNames {
    /// The prefix of the numbers of its layers; `None` if they follow the model's layers and are named like them.
    pub(in crate::model) layers: Option<&'static str>,
    /// The prefix of the names below; `None` if it is that of the first layer.
    pub(in crate::model) prefix: Option<&'static str>,
    pub(in crate::model) embedding_norm: &'static str,
    pub(in crate::model) hidden_norm: &'static str,
    pub(in crate::model) join: &'static str,
    pub(in crate::model) output_norm: &'static str,
    pub(in crate::model) head: &'static str,
    /// The embeddings of its own.
    pub(in crate::model) embedding: &'static str,
}

pub(in crate::model) const fn linear(
    weight: &'static str,
    bias: &'static str,
) -> Linear<&'static str> {
    Linear {
        weight,
        bias: Some(bias),
    }
}

pub(in crate::model) const GGUF: Names = Names {
    prefixes: &[["", ""]],
    embedding: "token_embd.weight",
    layer_inputs: LayerInputs {
        table: "per_layer_token_embd.weight",
        projection: "per_layer_model_proj.weight",
        norm: "per_layer_proj_norm.weight",
    },
    output_norm: "output_norm.weight",
    head: "output.weight",
    layer_prefix: "blk.",
    attention: Attention {
        norm: "attn_norm.weight",
        q: linear("attn_q.weight", "attn_q.bias"),
        k: Some(linear("attn_k.weight", "attn_k.bias")),
        v: Some(linear("attn_v.weight", "attn_v.bias")),
        // Each head of q is followed by its gate.
        gate: Some("attn_q.weight"),
        q_norm: Some("attn_q_norm.weight"),
        k_norm: Some("attn_k_norm.weight"),
        output: "attn_output.weight",
        after: None,
    },
    delta_net: DeltaNet {
        norm: "attn_norm.weight",
        qkv: "attn_qkv.weight",
        z: "attn_gate.weight",
        a: "ssm_alpha.weight",
        b: "ssm_beta.weight",
        conv: "ssm_conv1d.weight",
        step_bias: "ssm_dt.bias",
        decay: "ssm_a",
        result_norm: "ssm_norm.weight",
        output: "ssm_out.weight",
    },
    // One matrix has the rows of gate, input and step.
    mamba2: Mamba2 {
        norm: "attn_norm.weight",
        gate: "ssm_in.weight",
        input: "ssm_in.weight",
        step: "ssm_in.weight",
        conv: "ssm_conv1d.weight",
        conv_bias: "ssm_conv1d.bias",
        step_bias: "ssm_dt.bias",
        decay: "ssm_a",
        skip: "ssm_d",
        result_norm: "ssm_norm.weight",
        output: "ssm_out.weight",
    },
    short_conv: ShortConv {
        norm: "attn_norm.weight",
        input: "shortconv.in_proj.weight",
        conv: "shortconv.conv.weight",
        output: "shortconv.out_proj.weight",
    },
    mlp: Mlp {
        norm: "ffn_norm.weight",
        gate: Some("ffn_gate.weight"),
        up: "ffn_up.weight",
        down: "ffn_down.weight",
        after: None,
    },
    layer_input: LayerInput {
        gate: "inp_gate.weight",
        projection: "proj.weight",
        after: "post_norm.weight",
    },
    layer_scale: None,
    joined_qkv: None,
    joined_mlp: None,
    norms_added: 0.0,
    logarithms: false,
    refused: &[
        "attn_norm.bias",
        "attn_output.bias",
        "ffn_norm.bias",
        "ffn_gate.bias",
        "ffn_up.bias",
        "ffn_down.bias",
        "ffn_gate_inp.weight",
        "attn_qkv.bias",
    ],
    guess: None,
};

pub(in crate::model) const HUGGING_FACE: Names = Names {
    prefixes: &[
        ["model.", ""],
        ["language_model.model.", "language_model."],
        ["model.language_model.", ""],
        ["model.text_model.", ""],
    ],
    embedding: "embed_tokens.weight",
    layer_inputs: LayerInputs {
        table: "embed_tokens_per_layer.weight",
        projection: "per_layer_model_projection.weight",
        norm: "per_layer_projection_norm.weight",
    },
    output_norm: "norm.weight",
    head: "lm_head.weight",
    layer_prefix: "layers.",
    attention: Attention {
        norm: "input_layernorm.weight",
        q: linear("self_attn.q_proj.weight", "self_attn.q_proj.bias"),
        k: Some(linear("self_attn.k_proj.weight", "self_attn.k_proj.bias")),
        v: Some(linear("self_attn.v_proj.weight", "self_attn.v_proj.bias")),
        // Each head of q is followed by its gate.
        gate: Some("self_attn.q_proj.weight"),
        q_norm: Some("self_attn.q_norm.weight"),
        k_norm: Some("self_attn.k_norm.weight"),
        output: "self_attn.o_proj.weight",
        after: None,
    },
    delta_net: DeltaNet {
        norm: "input_layernorm.weight",
        qkv: "linear_attn.in_proj_qkv.weight",
        z: "linear_attn.in_proj_z.weight",
        a: "linear_attn.in_proj_a.weight",
        b: "linear_attn.in_proj_b.weight",
        conv: "linear_attn.conv1d.weight",
        step_bias: "linear_attn.dt_bias",
        decay: "linear_attn.A_log",
        result_norm: "linear_attn.norm.weight",
        output: "linear_attn.out_proj.weight",
    },
    mamba2: Mamba2 {
        norm: "input_layernorm.weight",
        gate: "mamba.in_proj.weight",
        input: "mamba.in_proj.weight",
        step: "mamba.in_proj.weight",
        conv: "mamba.conv1d.weight",
        conv_bias: "mamba.conv1d.bias",
        step_bias: "mamba.dt_bias",
        decay: "mamba.A_log",
        skip: "mamba.D",
        result_norm: "mamba.norm.weight",
        output: "mamba.out_proj.weight",
    },
    short_conv: ShortConv {
        norm: "operator_norm.weight",
        input: "conv.in_proj.weight",
        conv: "conv.conv.weight",
        output: "conv.out_proj.weight",
    },
    mlp: Mlp {
        norm: "post_attention_layernorm.weight",
        gate: Some("mlp.gate_proj.weight"),
        up: "mlp.up_proj.weight",
        down: "mlp.down_proj.weight",
        after: None,
    },
    layer_input: LayerInput {
        gate: "per_layer_input_gate.weight",
        projection: "per_layer_projection.weight",
        after: "post_per_layer_input_norm.weight",
    },
    layer_scale: None,
    joined_qkv: None,
    joined_mlp: None,
    norms_added: 0.0,
    logarithms: true,
    refused: &[
        "self_attn.o_proj.bias",
        "mlp.gate_proj.bias",
        "mlp.up_proj.bias",
        "mlp.down_proj.bias",
        "mlp.gate.weight",
        "self_attn.qkv_proj.bias",
        "mlp.gate_up_proj.bias",
    ],
    guess: None,
};

//! A head as plain loops in f64: one layer of gated attention and an MLP, row by row, to compare with vLLM's
//! `qwen3_5_mtp.py`.

use super::model::{HEAD_DIM, HEADS, HIDDEN, KV_HEADS, Tensors, VOCABULARY};

const EPSILON: f64 = 1e-6;
/// The elements of a head that rotate, and the base of their angles.
const ROTATED: usize = 8;
const THETA: f64 = 1e7;

/// The keys and values of the rows so far.
pub(crate) struct Head<'a> {
    tensors: &'a Tensors,
    keys: Vec<Vec<f64>>,
    values: Vec<Vec<f64>>,
}

/// The result of a row.
pub(crate) struct Row {
    pub(crate) logits: Vec<f64>,
    pub(crate) hidden: Vec<f64>,
}

impl<'a> Head<'a> {
    pub(crate) fn new(tensors: &'a Tensors) -> Self {
        Self {
            tensors,
            keys: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Runs the row at the next position: a token, and the hidden state of the position before.
    pub(crate) fn run(&mut self, token: u32, before: &[f64]) -> Row {
        let at = |name: &str| format!("mtp.layers.0.{name}.weight");
        let own = self.tensors.get("mtp.embed_tokens.weight");
        let (_, embedding) = own.unwrap_or(&self.tensors["model.embed_tokens.weight"]);
        let embedding = &embedding[token as usize * HIDDEN..][..HIDDEN];
        let embedding: Vec<_> = embedding.iter().copied().map(f64::from).collect();
        let mut joined = self.norm("mtp.pre_fc_norm_embedding.weight", &embedding);
        joined.extend(self.norm("mtp.pre_fc_norm_hidden.weight", before));
        let mut x = self.product("mtp.fc.weight", &joined);
        let normed = self.norm(&at("input_layernorm"), &x);
        let attended = self.attend(&normed);
        add(&mut x, &self.product(&at("self_attn.o_proj"), &attended));
        let normed = self.norm(&at("post_attention_layernorm"), &x);
        let gate = self.product(&at("mlp.gate_proj"), &normed);
        let up = self.product(&at("mlp.up_proj"), &normed);
        let silu = |x: f64| x / (1.0 + (-x).exp());
        let inner: Vec<_> = gate.iter().zip(&up).map(|(g, u)| silu(*g) * u).collect();
        add(&mut x, &self.product(&at("mlp.down_proj"), &inner));
        let hidden = self.norm("mtp.norm.weight", &x);
        let logits = self.product("lm_head.weight", &hidden);
        assert_eq!(logits.len(), VOCABULARY);
        Row { logits, hidden }
    }

    fn attend(&mut self, normed: &[f64]) -> Vec<f64> {
        let at = |name: &str| format!("mtp.layers.0.self_attn.{name}.weight");
        let position = self.keys.len();
        let turned = |head: &[f64], norm: &str| rotate(self.norm(&at(norm), head), position);
        let (q, k) = (
            self.product(&at("q_proj"), normed),
            self.product(&at("k_proj"), normed),
        );
        let keys = k
            .chunks_exact(HEAD_DIM)
            .flat_map(|head| turned(head, "k_norm"));
        let (keys, values) = (keys.collect(), self.product(&at("v_proj"), normed));
        // Each head of q is followed by its gate.
        let heads = q
            .chunks_exact(2 * HEAD_DIM)
            .map(|both| both.split_at(HEAD_DIM));
        let heads = heads.map(|(query, gate)| (turned(query, "q_norm"), gate.to_vec()));
        let heads: Vec<_> = heads.collect();
        self.keys.push(keys);
        self.values.push(values);
        let each = heads.iter().enumerate().flat_map(|(head, (query, gate))| {
            let own = head / (HEADS / KV_HEADS) * HEAD_DIM;
            #[allow(clippy::cast_precision_loss)] // heads are narrow
            let scale = (HEAD_DIM as f64).sqrt();
            let scores = self.keys.iter().map(|keys| {
                let pairs = query.iter().zip(&keys[own..]);
                (pairs.map(|(q, k)| q * k).sum::<f64>() / scale).exp()
            });
            let scores: Vec<_> = scores.collect();
            let all: f64 = scores.iter().sum();
            let mut out = vec![0.0; HEAD_DIM];
            for (score, values) in scores.iter().zip(&self.values) {
                for (out, value) in out.iter_mut().zip(&values[own..]) {
                    *out += score / all * value;
                }
            }
            let gated = out.iter().zip(gate);
            gated
                .map(|(out, gate)| out / (1.0 + (-gate).exp()))
                .collect::<Vec<_>>()
        });
        each.collect()
    }

    fn product(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let rows = self.tensors[name].1.chunks_exact(x.len());
        let dot = |row: &[f32]| row.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum();
        rows.map(dot).collect()
    }

    /// The files hold what is added to a factor of 1.
    fn norm(&self, name: &str, x: &[f64]) -> Vec<f64> {
        #[allow(clippy::cast_precision_loss)] // rows are narrow
        let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        let scale = 1.0 / (mean + EPSILON).sqrt();
        let weights = self.tensors[name].1.iter();
        let pairs = x.iter().zip(weights);
        pairs
            .map(|(x, weight)| x * scale * (1.0 + f64::from(*weight)))
            .collect()
    }
}

fn rotate(mut head: Vec<f64>, position: usize) -> Vec<f64> {
    for pair in 0..ROTATED / 2 {
        #[allow(clippy::cast_precision_loss)] // positions are few
        let angle = position as f64 * THETA.powf(-2.0 * pair as f64 / ROTATED as f64);
        let (sin, cos) = angle.sin_cos();
        let (a, b) = (head[pair], head[pair + ROTATED / 2]);
        head[pair] = a * cos - b * sin;
        head[pair + ROTATED / 2] = b * cos + a * sin;
    }
    head
}

fn add(x: &mut [f64], y: &[f64]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}

//! Writes the tape of an image: from its patches to embeddings of a language model.

use std::sync::Arc;

use super::shape::{Grid, ProjectorNorm, Reduction, TowerMlp, TowerShape};
use super::weights::{Merger, TowerBlock, TowerLinear, TowerNorm, TowerQkv, TowerWeights};
use crate::quant::DType;
use crate::tape::{
    Activation, Buffer, BufferInfo, Ending, HeadNorms, Input, KvInfo, Norm, NormKind, Op,
    PatchOrder, Square, Tape, Vision, WeightId, WeightInfo,
};

/// The epsilon of the norms of `DeepStack`'s mergers.
const DEEPSTACK_EPSILON: f32 = 1e-6;

/// The inputs that all tapes of a tower share.
#[derive(Clone, Debug)]
pub struct TowerForward {
    pub shape: TowerShape,
    pub weights: TowerWeights<WeightId>,
    pub infos: Arc<[WeightInfo]>,
    /// The type of activations between the residual stream and the products.
    pub activation: DType,
}

/// The buffers that the host writes and reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TowerBuffers {
    /// (patches, elements of one picture's patch): written by the host.
    pub pixels: Buffer,
    /// The residual stream, (patches, hidden). The host writes the position embeddings.
    pub x: Buffer,
    /// (patches, head_dim): written by the host, if heads rotate.
    pub turns: Option<Buffer>,
    /// (tokens, width of the language model)
    pub embeddings: Buffer,
    /// As `embeddings`, for each block of `DeepStack`.
    pub deepstack: Vec<Buffer>,
}

impl TowerForward {
    /// Writes the tape of an image. Buffers have the same order in every tape, so that the tapes of all grids run in the
    /// same buffers.
    #[must_use]
    pub fn tape(&self, grid: Grid) -> (Tape, TowerBuffers) {
        let mut writer = Writer::new(&self.shape, grid, self.activation);
        let at = writer.places.clone();
        writer.linear(&self.weights.patch, at.pixels, None, Target::Sum(at.x));
        for (index, block) in self.weights.blocks.iter().enumerate() {
            writer.attention(block);
            writer.mlp(block);
            let taps = self.shape.deepstack.iter().zip(&self.weights.deepstack);
            for (number, (_, merger)) in taps.enumerate().filter(|(_, (at, _))| **at == index) {
                writer.deepstack(merger, at.deepstack[number]);
            }
        }
        writer.projector(&self.weights);
        let Writer { buffers, ops, .. } = writer;
        let tape = Tape {
            rows: grid.patches(),
            input: Input::Patches {
                buffers: if at.turns.is_some() { 3 } else { 2 },
            },
            ending: Ending::Kv,
            activation: self.activation,
            kv: KvInfo::none(),
            state: None,
            buffers,
            weights: self.infos.clone(),
            ops,
        };
        (tape, at)
    }
}

/// A tape under construction.
struct Writer<'a> {
    shape: &'a TowerShape,
    grid: Grid,
    activation: DType,
    places: TowerBuffers,
    buffers: Vec<BufferInfo>,
    ops: Vec<Op>,
}

/// The destination of a product.
#[derive(Clone, Copy)]
enum Target {
    /// It is added to a buffer.
    Sum(Buffer),
    /// It fills the columns of a buffer from one on.
    Columns(Buffer, usize),
}

impl<'a> Writer<'a> {
    fn new(shape: &'a TowerShape, grid: Grid, activation: DType) -> Self {
        let mut writer = Self {
            shape,
            grid,
            activation,
            places: TowerBuffers {
                pixels: Buffer(0),
                x: Buffer(1),
                turns: shape.rotation.map(|_| Buffer(2)),
                embeddings: Buffer(0),
                deepstack: Vec::new(),
            },
            buffers: Vec::new(),
            ops: Vec::new(),
        };
        let (patches, tokens) = (grid.patches(), shape.tokens(grid));
        let (hidden, text) = (shape.hidden, shape.projector.text);
        let rounded = activation;
        writer.buffer("pixels", (patches, shape.patch.multiplied()), rounded);
        writer.buffer("x", (patches, hidden), DType::F32);
        if shape.rotation.is_some() {
            writer.buffer("turns", (patches, shape.head_dim), DType::F32);
        }
        writer.places.embeddings = writer.buffer("embeddings", (tokens, text), DType::F32);
        for _ in &shape.deepstack {
            let place = writer.buffer("deepstack", (tokens, text), DType::F32);
            writer.places.deepstack.push(place);
        }
        writer
    }

    /// Returns the buffer of a name and a type, which is added once.
    fn buffer(
        &mut self,
        name: &'static str,
        (rows, columns): (usize, usize),
        dtype: DType,
    ) -> Buffer {
        let info = BufferInfo {
            name,
            rows,
            columns,
            dtype,
        };
        // Each image has a buffer of its own for the embeddings of each block.
        let found = (name != "deepstack")
            .then(|| self.buffers.iter().position(|other| *other == info))
            .flatten();
        Buffer(found.unwrap_or_else(|| {
            self.buffers.push(info);
            self.buffers.len() - 1
        }))
    }

    /// A buffer with a row for each patch.
    fn of_patches(&mut self, name: &'static str, columns: usize, dtype: DType) -> Buffer {
        self.buffer(name, (self.grid.patches(), columns), dtype)
    }

    /// A buffer with a row for each token.
    fn of_tokens(&mut self, name: &'static str, columns: usize, dtype: DType) -> Buffer {
        self.buffer(name, (self.shape.tokens(self.grid), columns), dtype)
    }

    fn push(&mut self, op: Vision) {
        self.ops.push(Op::Vision(op));
    }

    fn linear(
        &mut self,
        linear: &TowerLinear<WeightId>,
        input: Buffer,
        activation: Option<Activation>,
        target: Target,
    ) {
        let (out, first, adds) = match target {
            Target::Sum(out) => (out, 0, true),
            Target::Columns(out, first) => (out, first, false),
        };
        self.push(Vision::Linear {
            input,
            weight: linear.weight,
            bias: linear.bias,
            clip: linear.clip,
            activation,
            adds,
            out,
            first,
        });
    }

    /// Norms the residual stream for the next product.
    fn normed(&mut self, norm: &TowerNorm<WeightId>) -> Buffer {
        let out = self.of_patches("normed", self.shape.hidden, self.activation);
        let norm = self.of_shape(norm);
        self.push(Vision::Norm {
            x: self.places.x,
            norm,
            out,
        });
        out
    }

    /// Returns a norm of the tower's kind.
    fn of_shape(&self, norm: &TowerNorm<WeightId>) -> Norm {
        Norm {
            kind: self.shape.norm,
            weight: Some(norm.weight),
            bias: norm.bias,
            epsilon: self.shape.epsilon,
        }
    }

    fn attention(&mut self, block: &TowerBlock<WeightId>) {
        let shape = self.shape;
        let width = shape.attention_width();
        let normed = self.normed(&block.attention_norm);
        // Heads that neither rotate nor are normed are rounded where they are computed.
        let turns = self.places.turns;
        let kind = if turns.is_some() {
            DType::F32
        } else {
            self.activation
        };
        let qkv = self.of_patches("qkv", 3 * width, kind);
        match &block.qkv {
            TowerQkv::Joined(joined) => self.linear(joined, normed, None, Target::Columns(qkv, 0)),
            TowerQkv::Apart(parts) => {
                for (index, part) in parts.iter().enumerate() {
                    self.linear(part, normed, None, Target::Columns(qkv, index * width));
                }
            }
        }
        let qkv = match (turns, shape.rotation) {
            (Some(turns), Some(rotation)) => {
                let out = self.of_patches("rotated", 3 * width, self.activation);
                self.push(Vision::Rotate {
                    qkv,
                    heads: shape.heads,
                    norms: HeadNorms {
                        q: block.q_norm,
                        k: block.k_norm,
                        v: shape.norms_heads,
                    },
                    epsilon: shape.epsilon,
                    parts: rotation.parts,
                    turns,
                    out,
                });
                out
            }
            _ => qkv,
        };
        let out = self.of_patches("attended", width, self.activation);
        self.push(Vision::Attend {
            qkv,
            heads: shape.heads,
            scale: shape.scale,
            out,
        });
        self.add_result(&block.output, out, block.attention_after);
    }

    fn mlp(&mut self, block: &TowerBlock<WeightId>) {
        let TowerMlp {
            width, activation, ..
        } = self.shape.mlp;
        let normed = self.normed(&block.mlp_norm);
        let out = self.of_patches("mlp", width, self.activation);
        match &block.gate {
            None => self.linear(&block.up, normed, Some(activation), Target::Columns(out, 0)),
            Some(of_gate) => {
                let gate = self.of_patches("gate", width, DType::F32);
                let up = self.of_patches("up", width, DType::F32);
                self.linear(of_gate, normed, None, Target::Columns(gate, 0));
                self.linear(&block.up, normed, None, Target::Columns(up, 0));
                self.ops.push(Op::Gate {
                    gate,
                    input: Some(up),
                    first: 0,
                    activation,
                    out,
                });
            }
        }
        self.add_result(&block.down, out, block.mlp_after);
    }

    /// Adds a product to the residual stream, after a norm if there is one.
    fn add_result(
        &mut self,
        linear: &TowerLinear<WeightId>,
        input: Buffer,
        after: Option<WeightId>,
    ) {
        let x = self.places.x;
        let Some(norm) = after else {
            return self.linear(linear, input, None, Target::Sum(x));
        };
        let y = self.of_patches("result", self.shape.hidden, DType::F32);
        self.linear(linear, input, None, Target::Columns(y, 0));
        self.ops.push(Op::AddNormed {
            y,
            norm,
            epsilon: self.shape.epsilon,
            scale: None,
            x,
        });
    }

    /// The patches that become a token.
    fn square(&self) -> Square {
        let order = if self.shape.patch.in_blocks {
            PatchOrder::Blocks
        } else {
            PatchOrder::Raster {
                columns: self.grid.columns,
            }
        };
        Square {
            side: self.shape.projector.side,
            order,
        }
    }

    /// Makes embeddings of the hidden states of a block: patches are concatenated before their norm.
    fn deepstack(&mut self, merger: &Merger<WeightId>, out: Buffer) {
        let width = self.shape.token_width();
        let square = self.square();
        let joined = self.of_tokens("merged", width, DType::F32);
        self.push(Vision::Merge {
            x: self.places.x,
            square,
            out: joined,
        });
        let norm = ProjectorNorm {
            kind: NormKind::Layer,
            epsilon: DEEPSTACK_EPSILON,
            weighted: true,
            added: 0.0,
        };
        self.merge(merger, (joined, Some(norm)), out);
    }

    fn projector(&mut self, weights: &TowerWeights<WeightId>) {
        let projector = self.shape.projector;
        let (hidden, square) = (self.shape.hidden, self.square());
        let concatenates = projector.reduction == Reduction::Concatenated;
        // Patches that are products' inputs without a further norm are rounded once.
        let kind = if concatenates && projector.norm.is_none() {
            self.activation
        } else {
            DType::F32
        };
        let patches = match &weights.output_norm {
            None => self.places.x,
            Some(norm) => {
                let out = self.of_patches("output", hidden, kind);
                let norm = self.of_shape(norm);
                self.push(Vision::Norm {
                    x: self.places.x,
                    norm,
                    out,
                });
                out
            }
        };
        let tokens = match projector.reduction {
            Reduction::Concatenated => {
                let out = self.of_tokens("merged", self.shape.token_width(), kind);
                self.push(Vision::Merge {
                    x: patches,
                    square,
                    out,
                });
                out
            }
            Reduction::Averaged { scale, .. } => {
                let out = self.of_tokens("pooled", hidden, DType::F32);
                self.push(Vision::Pool {
                    x: patches,
                    square,
                    scale,
                    standard: weights.standard,
                    out,
                });
                out
            }
        };
        let out = self.places.embeddings;
        self.merge(&weights.projector, (tokens, projector.norm), out);
    }

    /// Adds an optional norm of tokens, and one or two products.
    fn merge(
        &mut self,
        merger: &Merger<WeightId>,
        (tokens, norm): (Buffer, Option<ProjectorNorm>),
        out: Buffer,
    ) {
        let projector = self.shape.projector;
        let input = norm.map_or(tokens, |norm| {
            let width = self.shape.token_width();
            let out = self.of_tokens("tokens", width, self.activation);
            let of = merger.norm.as_ref();
            self.push(Vision::Norm {
                x: tokens,
                norm: Norm {
                    kind: norm.kind,
                    weight: of.map(|of| of.weight),
                    bias: of.and_then(|of| of.bias),
                    epsilon: norm.epsilon,
                },
                out,
            });
            out
        });
        let (Some(second), Some(width)) = (&merger.second, projector.width) else {
            return self.linear(&merger.first, input, None, Target::Columns(out, 0));
        };
        let between = self.of_tokens("projected", width, self.activation);
        let activation = Some(projector.activation);
        self.linear(
            &merger.first,
            input,
            activation,
            Target::Columns(between, 0),
        );
        self.linear(second, between, None, Target::Columns(out, 0));
    }
}

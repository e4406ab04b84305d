//! The forward pass: writes the tape of one pass of `rows` rows.

mod buffers;
mod guess;
mod recurrent;
mod writer;

use std::sync::Arc;

use buffers::Buffers;
use writer::Writer;

use super::shape::{AttentionShape, KvSource, MixerShape, Shape};
use super::weights::{GuessHead, Layer, Weights};
use crate::quant::DType;
use crate::tape::{
    Buffer, Ending, Input, KvInfo, Op, Recurrent, StateInfo, Tape, WeightId, WeightInfo,
};

/// The inputs that all tapes of a model share.
#[derive(Clone, Debug)]
pub struct Forward {
    pub shape: Shape,
    pub weights: Weights<WeightId>,
    /// The head that guesses tokens, if it is loaded.
    pub guess: Option<GuessHead<WeightId>>,
    pub infos: Arc<[WeightInfo]>,
    /// The type of activations between the residual stream and the matrix multiplications.
    pub activation: DType,
    pub kv: KvInfo,
    /// The recurrent state, if the model has recurrent layers.
    pub state: Option<StateInfo>,
}

impl Forward {
    /// Writes the tape of a step or of a prompt with `rows` rows. Buffers have the same order in every tape, so that
    /// tapes of fewer rows run in the same buffers.
    #[must_use]
    pub fn tape(&self, rows: usize, input: Input, ending: Ending) -> Tape {
        self.write(rows, input, ending, false)
    }

    /// Writes the tape of a prompt with `rows` rows, some of which are embeddings of images. Its first buffers are those of
    /// `tape`, in the same order.
    #[must_use]
    pub fn image_tape(&self, rows: usize, ending: Ending) -> Tape {
        self.write(rows, Input::Prompt, ending, true)
    }

    fn write(&self, rows: usize, input: Input, ending: Ending, has_images: bool) -> Tape {
        let (mut writer, logits) = self.writer(rows, (input, ending), has_images);
        let head = self.guess.as_ref();
        // On a GPU both operations take the commands of the step. The second one sets the same values again.
        let own = head.and_then(|head| head.embedding.zip(Some(head)));
        if let Some((embedding, head)) = own {
            writer.embed_inputs(embedding);
            writer.guess_embedding(head);
        }
        writer.embed_inputs(self.weights.embedding);
        if let (Some(head), None) = (head, own) {
            writer.guess_embedding(head);
        }
        if let Some(weights) = &self.weights.layer_inputs {
            writer.layer_inputs(weights);
        }
        let writes_state = self.state.is_some() && input == Input::Prompt;
        let commit = writes_state.then_some(Op::Recurrent(Recurrent::Commit));
        writer.ops.extend(commit);
        for (index, weights) in self.weights.layers.iter().enumerate() {
            writer.layer(index, weights);
        }
        if let Some(head) = &self.guess {
            writer.guess_keys(head, self.weights.output_norm);
        }
        if ending != Ending::Kv {
            let weight = self.weights.head.unwrap_or(self.weights.embedding);
            writer.head((self.weights.output_norm, weight), logits);
        }
        if ending == Ending::Token {
            writer.ops.push(Op::Sample { logits });
        }
        let swap = writes_state.then_some(Op::Recurrent(Recurrent::Swap));
        writer.ops.extend(swap);
        self.finish(writer, rows, (input, ending))
    }

    /// Returns a tape without operations, and its logits.
    fn writer(
        &self,
        rows: usize,
        (input, ending): (Input, Ending),
        has_images: bool,
    ) -> (Writer<'_>, Buffer) {
        let shape = &self.shape;
        let mut buffers = self.buffers(rows, input, ending);
        if has_images {
            buffers.add("images", [shape.hidden].into_iter());
            if shape.images.deepstack > 0 {
                let width = shape.images.deepstack * shape.hidden;
                buffers.add("deepstack", [width].into_iter());
            }
        }
        // The residual stream is divided by the multiplier of what is added to it. The norms remove any common factor,
        // if their epsilon has it, too.
        let residual = shape.multipliers.residual;
        let logits = buffers.of("logits", shape.vocabulary);
        let writer = Writer {
            shape,
            x: buffers.of("x", shape.hidden),
            buffers,
            ops: Vec::new(),
            epsilon: shape.norm_epsilon / (residual * residual),
            has_images,
        };
        (writer, logits)
    }

    fn finish(&self, writer: Writer<'_>, rows: usize, (input, ending): (Input, Ending)) -> Tape {
        let Writer { ops, buffers, .. } = writer;
        Tape {
            rows,
            input,
            ending,
            activation: self.activation,
            kv: self.kv,
            state: self.state,
            buffers: buffers.finish(),
            weights: self.infos.clone(),
            ops,
        }
    }

    /// Whether a layer norms a result before it is added.
    fn norms_results(&self) -> bool {
        let normed = |layer: &Layer<WeightId>| {
            let of_mixer = layer.attention().and_then(|attention| attention.after);
            of_mixer.or_else(|| layer.mlp.as_ref()?.after)
        };
        self.weights
            .layers
            .iter()
            .any(|layer| normed(layer).is_some())
    }

    /// Returns the buffers of a tape.
    fn buffers(&self, rows: usize, input: Input, ending: Ending) -> Buffers {
        let shape = &self.shape;
        let all = ending == Ending::Logits || input == Input::Step;
        let scored = if all { rows } else { 1 };
        let attention = || shape.attention().map(|(_, attention)| attention);
        let queries = || attention().map(AttentionShape::query_width);
        let keys = attention().filter(|attention| attention.stores());
        let values = attention().filter(|attention| attention.kv == KvSource::Projected);
        let mlps = shape.layers.iter().filter_map(|layer| layer.mlp);
        let mut buffers = Buffers::new(rows, self.activation);
        buffers.add("x", [shape.hidden].into_iter());
        buffers.add("q", queries());
        buffers.add("k", keys.map(AttentionShape::kv_width));
        buffers.add("v", values.map(AttentionShape::kv_width));
        buffers.add_rounded("rotated", queries());
        buffers.add_rounded("attended", queries());
        buffers.add_rounded("mlp", mlps.map(|mlp| mlp.width));
        buffers.add_rows("logits", scored, shape.vocabulary);
        if self.norms_results() {
            buffers.add("result", [shape.hidden].into_iter());
        }
        let ungated = shape.layers.iter().filter_map(|layer| layer.mlp);
        let ungated = ungated.filter(|mlp| !mlp.gated);
        buffers.add("up", ungated.map(|mlp| mlp.width));
        let gated = || attention().filter(|attention| attention.gated);
        buffers.add("gate", gated().map(AttentionShape::query_width));
        buffers.add_rounded("gated", gated().map(AttentionShape::query_width));
        for mixer in shape.layers.iter().filter_map(|layer| layer.mixer) {
            let one = std::iter::once;
            let (channels, width, heads) = match mixer {
                MixerShape::Attention(_) => continue,
                MixerShape::DeltaNet(of) => (of.channels(), of.value_width(), of.value_heads),
                MixerShape::Mamba2(of) => (of.channels(), of.inner(), of.heads),
                MixerShape::ShortConv(_) => {
                    buffers.add("mixed", one(3 * shape.hidden));
                    buffers.add_rounded("mixer", one(shape.hidden));
                    continue;
                }
            };
            buffers.add("mixed", one(channels));
            buffers.add("convolved", one(channels));
            buffers.add("z", one(width));
            buffers.add("y", one(width));
            buffers.add("a", one(heads));
            buffers.add("b", one(heads));
            buffers.add_rounded("mixer", one(width));
        }
        if self.guess.is_some() {
            buffers.add("joined", [2 * shape.hidden].into_iter());
            buffers.add("hidden", [shape.hidden].into_iter());
            buffers.add("before", [shape.hidden].into_iter());
        }
        let input = shape.layer_input;
        if input > 0 {
            buffers.add("inputs", [shape.layers.len() * input].into_iter());
            buffers.add("gate", [input].into_iter());
            buffers.add_rounded("gated", [input].into_iter());
        }
        buffers
    }
}

//! Converts operations to launches: one match, in the order of `op.rs`.

use std::ops::Range;

use super::activation::number;
use super::attend::{Raw, raw};
use super::memory::{MatrixPart, stride};
use super::narrow::narrow;
use super::prompt::Prompt;
use super::queue::LaunchQueue;
use super::work::{SAMPLE_BLOCKS, THREADS, Work};
use crate::device::{
    AddNormedArgs, Command, EmbedArgs, Epilogue, Error, GateArgs, Geometry, LayerInputsArgs,
    NormArgs, SampleArgs, SoftcapArgs, StepArgs,
};
use crate::quant::DType;
use crate::tape::{Buffer, Ending, Input, Op, Projection, Tape, WeightId};

/// `sample.cu`
const SAMPLE_THREADS: u32 = 1024;

/// Rows of a prompt whose products leave room on every multiprocessor for the blocks of the next kernels.
const FEW: usize = 32;

impl Work<'_> {
    /// Queues operations of a tape.
    pub(super) fn run(
        &self,
        tape: &Tape,
        operations: Range<usize>,
        queue: &mut LaunchQueue<'_>,
    ) -> Result<(), Error> {
        let Range { start, end } = operations;
        queue.set_early(tape.input == Input::Prompt && tape.rows <= FEW);
        (start..end).try_for_each(|index| {
            queue.begin(index, tape.ops[index].name());
            // The second of two fused operations launches their kernel.
            if index + 1 < end && tape.is_fused_with_next(index) {
                return Ok(());
            }
            let raw = raw(tape, index).filter(|_| index > start);
            self.launch(tape, index, raw, queue)
        })
    }

    #[allow(clippy::too_many_lines)] // one arm an operation: in the order of op.rs
    fn launch(
        &self,
        tape: &Tape,
        index: usize,
        raw: Option<Raw>,
        queue: &mut LaunchQueue<'_>,
    ) -> Result<(), Error> {
        let Self {
            kernels,
            addresses: at,
            ..
        } = *self;
        let rows = narrow(tape.rows);
        let step = tape.input == Input::Step;
        let places = self.places_of(step);
        let count = self.count_of(tape);
        let columns = |buffer: Buffer| narrow(tape.buffer(buffer).columns);
        match tape.ops[index] {
            Op::Embed { table, scale, x } => {
                for MatrixPart { first, tiles } in self.parts(table) {
                    let args = EmbedArgs {
                        table: *tiles,
                        places,
                        commands: if step { at.steps } else { at.prompt },
                        host_tables: at.host_tables,
                        sequence: at.sequence,
                        tokens: at.prompt + Command::TOKENS_AT,
                        x: self.buffer(x),
                        stamp: queue.stamp(),
                        hidden: columns(x),
                        first: narrow(*first),
                        scale,
                        pad: 0,
                    };
                    queue.launch(&kernels.embed, Geometry::new(rows, THREADS), &args)?;
                }
                Ok(())
            }
            Op::Qkv {
                x,
                norm,
                epsilon,
                ref projections,
            } => {
                let normed = if step {
                    None
                } else {
                    let prompt = self.prompt(tape);
                    let input = prompt.norm(queue, (x, norm, epsilon))?;
                    Some((prompt, input))
                };
                // A launch takes up to three matrices.
                projections.chunks(3).try_for_each(|some| {
                    let matrices = each(some, |of| self.whole(of.weight));
                    let biases = each(some, |of| of.bias.map_or(0, |bias| self.vector(bias)));
                    let filled = each(some, |of| self.buffer(of.out));
                    if let Some((prompt, input)) = normed {
                        return prompt.linear(queue, input, &matrices, &biases, &filled);
                    }
                    let [weight0, weight1, weight2] = matrices;
                    let [bias0, bias1, bias2] = biases;
                    let [out0, out1, out2] = filled;
                    let args = StepArgs {
                        weight0,
                        weight1,
                        weight2,
                        bias0,
                        bias1,
                        bias2,
                        out0,
                        out1,
                        out2,
                        ..self.of_normed(tape, (x, norm, epsilon), queue)
                    };
                    self.product(queue, args)
                })
            }
            Op::RopeStore { .. } => self.rope_store(tape, index, queue),
            Op::Attend { .. } => self.attend(tape, index, raw, queue),
            Op::Project { input, weight, x } => {
                self.multiply(tape, queue, (input, weight), (x, Epilogue::Added))
            }
            Op::Product { input, weight, out } => {
                self.multiply(tape, queue, (input, weight), (out, Epilogue::Stored))
            }
            Op::AddNormed {
                y,
                norm,
                epsilon,
                scale,
                x,
            } => {
                let args = AddNormedArgs {
                    y: self.buffer(y),
                    weight: self.vector(norm),
                    scale: scale.map_or(0, |scale| self.vector(scale)),
                    x: self.buffer(x),
                    count,
                    stamp: queue.stamp(),
                    hidden: columns(x),
                    rows,
                    epsilon,
                    pad: 0,
                };
                queue.launch(&kernels.add_normed, Geometry::new(rows, THREADS), &args)
            }
            Op::Norm {
                x,
                norm,
                epsilon,
                first,
                out,
            } => {
                let args = NormArgs {
                    x: self.buffer(x),
                    weight: self.vector(norm),
                    out: self.buffer(out) + 4 * first as u64,
                    sums: 0,
                    count,
                    stamp: queue.stamp(),
                    hidden: columns(x),
                    stride: columns(out),
                    epsilon,
                    rows,
                };
                queue.launch(&kernels.norm_columns, Geometry::new(rows, THREADS), &args)
            }
            Op::LayerInputs {
                table,
                scale,
                norm,
                epsilon,
                inputs,
            } => {
                let width = narrow(tape.weight(norm).columns);
                let geometry = Geometry {
                    grid: [columns(inputs) / width, rows, 1],
                    ..Geometry::new(1, THREADS)
                };
                self.parts(table)
                    .iter()
                    .try_for_each(|MatrixPart { first, tiles }| {
                        let args = LayerInputsArgs {
                            table: *tiles,
                            places,
                            tokens: at.prompt + Command::TOKENS_AT,
                            norm: self.vector(norm),
                            inputs: self.buffer(inputs),
                            stamp: queue.stamp(),
                            width,
                            columns: columns(inputs),
                            first: narrow(*first),
                            scale,
                            epsilon,
                            pad: 0,
                        };
                        queue.launch(&kernels.layer_inputs, geometry, &args)
                    })
            }
            Op::Gate {
                gate,
                input,
                first,
                activation,
                out,
            } => {
                let width = columns(gate);
                let rounded = input.is_some_and(|input| tape.buffer(input).dtype != DType::F32);
                let skipped = if rounded { 2 } else { 4 } * first as u64;
                let args = GateArgs {
                    gate: self.buffer(gate),
                    input: input.map_or(0, |input| self.buffer(input) + skipped),
                    out: self.buffer(out),
                    count,
                    stamp: queue.stamp(),
                    width,
                    input_stride: input.map_or(0, |input| narrow(stride(tape, input))),
                    stride: narrow(stride(tape, out)),
                    activation: number(activation),
                    rounded: rounded.into(),
                    pad: 0,
                };
                let geometry = Geometry {
                    grid: [width.div_ceil(THREADS), rows, 1],
                    ..Geometry::new(1, THREADS)
                };
                queue.launch(&kernels.gate, geometry, &args)
            }
            Op::GateUp {
                x,
                norm,
                epsilon,
                gate,
                up,
                activation,
                out,
            } => {
                let (gate, up) = (self.whole(gate), self.whole(up));
                let out_stride = narrow(stride(tape, out));
                if !step {
                    let prompt = self.prompt(tape);
                    let input = prompt.norm(queue, (x, norm, epsilon))?;
                    return prompt.gate_up(
                        queue,
                        input,
                        [gate, up],
                        activation,
                        (self.buffer(out), out_stride),
                    );
                }
                let args = StepArgs {
                    weight0: gate,
                    weight1: up,
                    out0: self.buffer(out),
                    out_stride,
                    activation: number(activation),
                    ..self.of_normed(tape, (x, norm, epsilon), queue)
                };
                self.gated(queue, args)
            }
            Op::Head {
                x,
                norm,
                epsilon,
                weight,
                logits,
            } => {
                let scored = tape.buffer(logits).rows;
                let (logits, out_stride) = (self.buffer(logits), columns(logits));
                // Logits of all rows come from the prompt's kernels, even if there is one row. The last row alone, from which
                // a token is chosen, uses the step's kernel below.
                if !step && (scored > 1 || tape.ending == Ending::Logits) {
                    let prompt = self.prompt(tape);
                    let input = prompt.norm(queue, (x, norm, epsilon))?;
                    for MatrixPart { first, tiles } in self.parts(weight) {
                        let out = (logits + 4 * *first as u64, out_stride);
                        prompt.head(queue, input, *tiles, out)?;
                    }
                    return Ok(());
                }
                // A prompt has logits for its last row that is not padding, which the device knows.
                let normed = self.of_normed(tape, (x, norm, epsilon), queue);
                for MatrixPart { first, tiles } in self.parts(weight) {
                    let args = StepArgs {
                        weight0: *tiles,
                        out0: logits + 4 * *first as u64,
                        out_stride,
                        count,
                        ..normed
                    };
                    self.product(queue, args)?;
                }
                Ok(())
            }
            Op::Softcap { logits, cap } => {
                let (vocabulary, rows) = (columns(logits), narrow(tape.buffer(logits).rows));
                let args = SoftcapArgs {
                    logits: self.buffer(logits),
                    stamp: queue.stamp(),
                    vocabulary,
                    rows,
                    cap,
                    pad: 0,
                };
                let geometry = Geometry {
                    grid: [vocabulary.div_ceil(THREADS), rows, 1],
                    ..Geometry::new(1, THREADS)
                };
                queue.launch(&kernels.softcap, geometry, &args)
            }
            Op::Recurrent(ref op) => self.recurrent(tape, op, queue),
            Op::Hidden(op) => self.hidden(tape, op, queue),
            Op::Vision(ref op) => self.vision(tape, op, queue),
            Op::Images(op) => self.show(tape, op, queue),
            Op::Sample { logits } => {
                let args = SampleArgs {
                    places,
                    logits: self.buffer(logits),
                    partials: at.best,
                    arrivals: at.arrivals,
                    sequence: at.sequence,
                    tokens: at.tokens,
                    best: at.scores,
                    masks: at.masks,
                    allowed: at.allowed,
                    stamp: queue.stamp(),
                    vocabulary: columns(logits),
                    mask_words: at.mask_words,
                };
                let geometry = Geometry {
                    grid: [SAMPLE_BLOCKS, narrow(tape.buffer(logits).rows), 1],
                    ..Geometry::new(1, SAMPLE_THREADS)
                };
                queue.launch(&kernels.sample, geometry, &args)
            }
        }
    }

    /// Queues the product of a weight and a buffer, added to another buffer or stored in it.
    fn multiply(
        &self,
        tape: &Tape,
        queue: &mut LaunchQueue<'_>,
        (input, weight): (Buffer, WeightId),
        (out, epilogue): (Buffer, Epilogue),
    ) -> Result<(), Error> {
        let (weight, prompt) = (self.whole(weight), self.prompt(tape));
        let rounds = tape.buffer(input).dtype == DType::F32;
        let input = match tape.input {
            _ if rounds => prompt.round(queue, input)?,
            Input::Prompt | Input::Patches { .. } => prompt.summed(queue, input, weight)?,
            Input::Step => prompt.rows_of(input),
        };
        if tape.input != Input::Step {
            return prompt.multiply(queue, input, weight, (self.buffer(out), epilogue));
        }
        let args = StepArgs {
            weight0: weight,
            out0: self.buffer(out),
            input: input.address,
            stamp: queue.stamp(),
            stride: input.stride,
            epilogue,
            rows: narrow(tape.rows),
            ..StepArgs::default()
        };
        self.product(queue, args)
    }

    /// Arguments of a product whose input rows the kernel norms.
    fn of_normed(
        &self,
        tape: &Tape,
        (x, norm, epsilon): (Buffer, WeightId, f32),
        queue: &LaunchQueue<'_>,
    ) -> StepArgs {
        let hidden = narrow(tape.buffer(x).columns);
        StepArgs {
            x: self.buffer(x),
            norm: self.vector(norm),
            stamp: queue.stamp(),
            hidden,
            stride: hidden.next_multiple_of(64),
            epsilon,
            // A prompt has only its last row.
            rows: if tape.input == Input::Step {
                narrow(tape.rows)
            } else {
                1
            },
            ..StepArgs::default()
        }
    }

    /// The launches of a prompt's products.
    fn prompt<'p>(&'p self, tape: &'p Tape) -> Prompt<'p> {
        Prompt {
            work: self,
            tape,
            rows: tape.rows,
        }
    }
}

/// Returns a property of up to three projections. A missing matrix has no rows.
fn each<T: Copy + Default>(projections: &[Projection], of: impl Fn(&Projection) -> T) -> [T; 3] {
    std::array::from_fn(|at| projections.get(at).map(&of).unwrap_or_default())
}

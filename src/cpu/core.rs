//! The loops themselves: one match over operations, on buffers of host memory.
//!
//! Written to be read beside the papers and to be right; weights are never expanded in memory, and a row's
//! bits do not depend on how many rows run, nor on the number of threads. Steps and prompts are two families, as on a GPU: the
//! last bits of one need not be those of the other.

use std::ops::Range;
use std::time::Duration;

use super::cache::Cache;
use super::matmul::Family;
use super::memory_estimate::Lengths;
use super::threads::Threads;
use super::timestamps::Timestamps;
use super::weight::Weight;
use super::{attention, matmul, norm, rope};
use crate::executor::PLACES;
use crate::sampler::{Mask, Promise, Sampler, Scored};
use crate::tape::{
    Angles, Buffer, ExecuteError, Input, KvInfo, Op, Projection, StepState, Tape, WeightId,
};

/// Weights, cache and activations, and the threads that compute on them.
#[derive(Debug)]
pub(super) struct Core {
    weights: Vec<Weight>,
    angles: Vec<Angles>,
    pub(super) cache: Cache,
    pub(super) buffers: Buffers,
    /// The conversation in each entry of the cache.
    pub(super) conversations: Vec<Conversation>,
    /// The rows of a prompt; those of a tape beyond them are padding.
    pub(super) prompt: Vec<u32>,
    /// The entry of the cache that the turn runs in.
    pub(super) entry: usize,
    /// The conversations of a step's rows; those of a tape beyond them are padding.
    pub(super) rows: Vec<usize>,
    /// The tokens of rows that are not the first of their conversation.
    pub(super) forced: Vec<u32>,
    runs: Vec<Run>,
    /// Tokens chosen since the start.
    pub(super) chosen: u64,
    /// Where operations leave their timestamps, if anyone asks.
    pub(super) timestamps: Option<Timestamps>,
    threads: Threads,
}

/// Where generation of a conversation stands, and how its tokens are chosen.
#[derive(Clone, Debug, Default)]
pub(super) struct Conversation {
    pub(super) state: StepState,
    pub(super) sampler: Sampler,
    pub(super) guide: Guide,
    /// Whether the last step found no mask.
    pub(super) waits: bool,
    /// The probabilities of the last choice.
    pub(super) scored: Vec<Scored>,
}

/// How long a step waits for a mask. A mask takes a fraction of a step, unless its grammar is made to take long.
const MASK: Duration = Duration::from_millis(2);

/// What bounds a conversation's next choice.
#[derive(Clone, Debug, Default)]
pub(super) enum Guide {
    #[default]
    Free,
    /// A mask is to come before anything is chosen.
    Waits,
    Allows(Mask),
    /// The mask is being made.
    Later(Promise),
}

/// Allocated by `prepare`, never moved by `run`.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// One for each buffer, long enough for every prepared tape.
    pub(super) activations: Vec<Vec<f32>>,
    /// Residual streams of prompts that were left, and of a step.
    pub(super) left: [Vec<f32>; PLACES],
    /// (rows, hidden): the normed rows of the operation at hand
    pub(super) normed: Vec<f32>,
    /// (outputs, rows): a product before it is transposed into its buffer
    pub(super) product: Vec<f32>,
    /// What the splits of a step's attention make, before they are merged.
    pub(super) partials: Vec<f32>,
}

impl Core {
    pub(super) fn new(
        weights: Vec<Weight>,
        angles: Vec<Angles>,
        kv: KvInfo,
        threads: usize,
    ) -> Result<Self, rayon::ThreadPoolBuildError> {
        Ok(Self {
            weights,
            angles,
            cache: Cache::new(kv),
            buffers: Buffers::default(),
            conversations: vec![Conversation::default(); kv.entries],
            prompt: Vec::new(),
            entry: 0,
            rows: vec![0],
            forced: Vec::new(),
            runs: Vec::new(),
            chosen: 0,
            timestamps: None,
            threads: Threads::new(threads)?,
        })
    }

    /// Replaces the cache by an empty one, and gives the memory of activations back.
    pub(super) fn replace_cache(&mut self, kv: KvInfo) {
        self.cache = Cache::new(kv);
        self.buffers = Buffers::default();
        self.conversations = vec![Conversation::default(); kv.entries];
        self.entry = 0;
        self.rows = vec![0];
        self.prompt.clear();
        self.forced.clear();
    }

    /// Makes room for a tape: after this, running it moves nothing.
    pub(super) fn prepare(&mut self, tape: &Tape) {
        let lengths = Lengths::of(&[tape]);
        let buffers = &mut self.buffers;
        buffers.activations.resize_with(
            lengths.activations.len().max(buffers.activations.len()),
            Vec::new,
        );
        for (buffer, length) in buffers.activations.iter_mut().zip(lengths.activations) {
            grow(buffer, length);
        }
        for left in &mut buffers.left {
            grow(left, lengths.left);
        }
        grow(&mut buffers.normed, lengths.normed);
        grow(&mut buffers.product, lengths.product);
        grow(&mut buffers.partials, lengths.partials);
    }

    /// Bytes of activations.
    pub(super) fn activation_bytes(&self) -> usize {
        let Buffers {
            activations,
            left,
            normed,
            product,
            partials,
        } = &self.buffers;
        let others = normed.len() + product.len() + partials.len();
        4 * (activations.iter().chain(left).map(Vec::len).sum::<usize>() + others)
    }

    /// Keeps what a prompt or a step needs that is left after a layer.
    pub(super) fn leave(&mut self, tape: &Tape, place: usize) {
        let Buffers {
            activations, left, ..
        } = &mut self.buffers;
        if let Some(x) = tape.residual_stream() {
            let length = tape.rows * tape.buffer(x).columns;
            left[place][..length].copy_from_slice(&activations[x.0][..length]);
        }
    }

    /// Goes on with what was kept.
    pub(super) fn resume(&mut self, tape: &Tape, place: usize) {
        let Buffers {
            activations, left, ..
        } = &mut self.buffers;
        if let Some(x) = tape.residual_stream() {
            let length = tape.rows * tape.buffer(x).columns;
            activations[x.0][..length].copy_from_slice(&left[place][..length]);
        }
    }

    /// The row of logits that a tape of `Ending::Logits` left.
    pub(super) fn logits(&self, tape: &Tape, row: usize) -> &[f32] {
        let head = tape.ops.iter().find_map(|op| match op {
            Op::Head { logits, .. } => Some(logits),
            _ => None,
        });
        let Some(logits) = head else {
            return &[];
        };
        let columns = tape.buffer(*logits).columns;
        &self.buffers.activations[logits.0][row * columns..][..columns]
    }

    /// Where the buffers of a tape lie, in their order.
    pub(super) fn addresses(&self) -> impl Iterator<Item = u64> {
        let activations = self.buffers.activations.iter();
        activations.map(|buffer| buffer.as_ptr().expose_provenance() as u64)
    }

    /// Runs operations of a prepared tape in an entry.
    pub(super) fn run(
        &mut self,
        tape: &Tape,
        operations: Range<usize>,
        entry: usize,
    ) -> Result<(), ExecuteError> {
        let threads = self.threads.clone();
        let mut runs = std::mem::take(&mut self.runs);
        self.fill(&mut runs, tape, entry);
        let ran = threads.run(|| {
            operations.into_iter().try_for_each(|index| {
                let begun = self.timestamps.as_ref().map(Timestamps::now);
                self.execute(tape, &tape.ops[index], &runs)?;
                if let (Some(timestamps), Some(begun)) = (&mut self.timestamps, begun) {
                    timestamps.ended(index, begun);
                }
                Ok(())
            })
        });
        self.runs = runs;
        ran
    }

    /// All real rows of a prompt are one run, and each row of a step is.
    fn fill(&self, runs: &mut Vec<Run>, tape: &Tape, entry: usize) {
        let run = |entry: usize, rows: Range<usize>| Run {
            entry,
            state: self.conversations[entry].state,
            rows,
            given: false,
            advances: true,
        };
        runs.clear();
        match tape.input {
            Input::Prompt => runs.push(run(entry, 0..self.prompt.len())),
            Input::Step if tape.rows == 1 => runs.push(run(entry, 0..1)),
            Input::Step => {
                let mut forced = self.forced.iter();
                for (row, entry) in self.rows.iter().enumerate() {
                    let (before, after) = (&self.rows[..row], &self.rows[row + 1..]);
                    let back = before.iter().filter(|other| *other == entry).count();
                    let mut run = run(*entry, row..row + 1);
                    run.state.position += back;
                    if back > 0
                        && let Some(token) = forced.next()
                    {
                        run.state.token = *token;
                        run.given = true;
                    }
                    run.advances = !after.contains(entry);
                    runs.push(run);
                }
            }
        }
    }

    #[allow(clippy::too_many_lines)] // one arm an operation: it reads beside op.rs
    fn execute(&mut self, tape: &Tape, op: &Op, runs: &[Run]) -> Result<(), ExecuteError> {
        let Self {
            weights,
            buffers:
                Buffers {
                    activations,
                    normed,
                    product,
                    partials,
                    ..
                },
            cache,
            prompt,
            ..
        } = self;
        // Rows that only fill a tape up are computed where that does no harm, and never stored.
        let (rows, real) = (
            tape.rows,
            runs.iter().map(|run| run.rows.len()).sum::<usize>(),
        );
        let len = |buffer: Buffer| tape.buffer(buffer).rows * tape.buffer(buffer).columns;
        let real_len = |buffer: Buffer| real * tape.buffer(buffer).columns;
        let family = match tape.input {
            Input::Step => Family::Step,
            Input::Prompt => Family::Prompt,
        };
        match *op {
            Op::Embed { table, x } => {
                let table = weights[table.0].matrix();
                let vocabulary = table.rows();
                let all = activations[x.0].chunks_exact_mut(table.columns());
                for (row, out) in all.take(real).enumerate() {
                    let token = match tape.input {
                        Input::Prompt => prompt[row],
                        Input::Step => runs[row].state.token,
                    };
                    let row = usize::try_from(token).ok().filter(|row| *row < vocabulary);
                    table
                        .dequantize_row(row.ok_or(ExecuteError::Token { token, vocabulary })?, out);
                }
            }
            Op::Qkv {
                x,
                norm,
                epsilon,
                projections,
                outputs,
            } => {
                let normed = &mut normed[..len(x)];
                norm::rms_norm(&activations[x.0], weights[norm.0].vector(), epsilon, normed);
                tape.activation.round(normed);
                let all = outputs.map(len).into_iter().sum();
                let mut product = &mut product[..all];
                let matrices = projections.map(|projection| weights[projection.weight.0].matrix());
                matmul::multiply(family, &matrices, normed, rows, product);
                for (Projection { bias, .. }, out) in projections.into_iter().zip(outputs) {
                    let bias = bias.map(|bias| weights[bias.0].vector());
                    let (own, others) = product.split_at_mut(len(out));
                    matmul::transpose(own, rows, &mut activations[out.0], |out, y, output| {
                        *out = y + bias.map_or(0.0, |bias| bias[output]);
                    });
                    product = others;
                }
            }
            Op::RopeStore {
                layer,
                inputs: [q, k, v],
                norms,
                epsilon,
                rotation,
                rotated,
            } => {
                let mut out = std::mem::take(&mut activations[rotated.0]);
                out[..len(q)].copy_from_slice(&activations[q.0][..len(q)]);
                let rotated_k = &mut product[..len(k)];
                rotated_k.copy_from_slice(&activations[k.0][..len(k)]);
                let norms = norms.map(|norms| norms.map(|WeightId(norm)| weights[norm].vector()));
                let heads = (tape.kv.head_dim, norms, epsilon);
                let [of_q, of_k] = rope::Rope::of(rotation, &self.angles, heads);
                let (wide, narrow) = (tape.buffer(q).columns, tape.buffer(k).columns);
                for run in runs {
                    let k = &mut rotated_k[run.of(narrow)];
                    of_q.rotate(&mut out[run.of(wide)], wide, run.state.position);
                    of_k.rotate(k, narrow, run.state.position);
                    let v = &activations[v.0][run.of(narrow)];
                    cache.store((run.entry, layer), run.state.position, k, v);
                }
                tape.buffer(rotated).dtype.round(&mut out[..len(q)]);
                activations[rotated.0] = out;
            }
            Op::Attend {
                layer,
                q,
                attention,
                out,
            } => {
                let sinks = attention
                    .sinks
                    .map(|WeightId(sinks)| weights[sinks].vector());
                let mut attended = std::mem::take(&mut activations[out.0]);
                for run in runs {
                    let shape = attention::Heads {
                        columns: tape.buffer(q).columns,
                        position: run.state.position,
                        activation: tape.activation,
                        attention,
                        sinks,
                    };
                    let (place, rows) = ((run.entry, layer), run.of(shape.columns));
                    let (q, out) = (&activations[q.0][rows.clone()], &mut attended[rows]);
                    match family {
                        Family::Step => {
                            attention::attend_step(cache, place, shape, q, partials, out);
                        }
                        Family::Prompt => attention::attend(cache, place, shape, q, out),
                    }
                }
                tape.buffer(out).dtype.round(&mut attended[..real_len(out)]);
                activations[out.0] = attended;
            }
            Op::Project { input, weight, x } => {
                let product = &mut product[..len(x)];
                matmul::multiply(
                    family,
                    &[weights[weight.0].matrix()],
                    &activations[input.0][..len(input)],
                    rows,
                    product,
                );
                matmul::transpose(product, rows, &mut activations[x.0], |x, y, _| *x += y);
            }
            Op::GateUp {
                x,
                norm,
                epsilon,
                gate,
                up,
                out,
            } => {
                let normed = &mut normed[..len(x)];
                norm::rms_norm(&activations[x.0], weights[norm.0].vector(), epsilon, normed);
                tape.activation.round(normed);
                let product = &mut product[..len(out)];
                let output = &mut activations[out.0][..len(out)];
                matmul::gate_up(
                    family,
                    weights[gate.0].matrix(),
                    weights[up.0].matrix(),
                    (normed, rows),
                    output,
                    product,
                );
                matmul::transpose(product, rows, output, |out, y, _| *out = y);
                tape.buffer(out).dtype.round(output);
            }
            Op::Head {
                x,
                norm,
                epsilon,
                weight,
                logits,
            } => {
                let (last, hidden) = (tape.buffer(logits).rows, tape.buffer(x).columns);
                let normed = &mut normed[..last * hidden];
                // A prompt has them for its last real rows; a step for all, whoever they are of.
                let real = if tape.input == Input::Step {
                    rows
                } else {
                    real
                };
                let x = &activations[x.0][..real * hidden];
                norm::rms_norm(
                    &x[(real - last) * hidden..],
                    weights[norm.0].vector(),
                    epsilon,
                    normed,
                );
                tape.activation.round(normed);
                let product = &mut product[..len(logits)];
                matmul::multiply(family, &[weights[weight.0].matrix()], normed, last, product);
                matmul::transpose(product, last, &mut activations[logits.0], |out, y, _| {
                    *out = y;
                });
            }
            Op::Sample { logits } => {
                let logits = activations[logits.0].chunks_exact(tape.buffer(logits).columns);
                let mut failed = None;
                for (run, logits) in runs.iter().zip(logits) {
                    let conversation = &mut self.conversations[run.entry];
                    if run.given {
                        conversation.sampler.accept(run.state.token);
                    }
                    if !run.advances {
                        continue;
                    }
                    let position = run.state.position + run.rows.len();
                    let mask = match &conversation.guide {
                        Guide::Free => None,
                        Guide::Waits => Some(None),
                        Guide::Allows(mask) => Some(Some(mask)),
                        Guide::Later(mask) => Some(mask.wait_for(MASK).flatten()),
                    };
                    conversation.waits = mask == Some(None);
                    if conversation.waits {
                        // As on a GPU it does not go on.
                        continue;
                    }
                    let mask = mask.flatten();
                    let Some(token) = conversation.sampler.sample(logits, mask) else {
                        // The others go on.
                        let position = position - 1;
                        failed.get_or_insert(ExecuteError::NonFinite { position });
                        continue;
                    };
                    conversation.state = StepState { token, position };
                    self.chosen += 1;
                    if !matches!(conversation.guide, Guide::Free) {
                        conversation.guide = Guide::Waits;
                    }
                    if let Some(most) = conversation.sampler.parameters().logprobs {
                        let scored = &mut conversation.scored;
                        Scored::rank(logits, token, most.into(), scored);
                    }
                }
                return failed.map_or(Ok(()), Err);
            }
        }
        Ok(())
    }
}

/// Rows of one conversation, from a position on.
#[derive(Debug)]
struct Run {
    entry: usize,
    /// As it began.
    state: StepState,
    rows: Range<usize>,
    /// Whether its token was given, rather than chosen.
    given: bool,
    /// Whether the conversation goes on from here.
    advances: bool,
}

impl Run {
    /// Its elements of rows of `columns`.
    fn of(&self, columns: usize) -> Range<usize> {
        self.rows.start * columns..self.rows.end * columns
    }
}

fn grow(buffer: &mut Vec<f32>, len: usize) {
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
}

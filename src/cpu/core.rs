//! The loops of the operations: one match, on buffers of host memory.
//!
//! The code is written to be correct and to be compared with the papers. Weights are never expanded in memory. The bits
//! of a row do not depend on the number of rows or threads. Steps and prompts have two families of loops, as on a GPU,
//! whose last bits may differ.

use std::collections::VecDeque;
use std::ops::Range;

use super::cache::Cache;
use super::images::Images;
use super::matmul::Family;
use super::precision::Precision;
use super::recurrent::{self, Memory, States};
use super::rows::{Run, groups};
use super::threads::Threads;
use super::timestamps::Timestamps;
use super::weight::Weight;
use super::{attention, hidden, matmul, norm, rope, vision};
use crate::executor::{ExecuteError, Given, PLACES, StepState};
use crate::sampler::{Mask, Promise, Sampler, Scored};
use crate::tape::{Angles, Buffer, Ending, Input, KvInfo, Op, Projection, Tape, WeightId};

/// Weights, cache and activations, and the threads that compute on them.
#[derive(Debug)]
pub(super) struct Core {
    weights: Vec<Weight>,
    angles: Vec<Angles>,
    pub(super) cache: Cache,
    /// The recurrent states, once a tape with recurrent layers was prepared.
    pub(super) states: Option<States>,
    pub(super) buffers: Buffers,
    /// The conversation in each slot of the cache.
    pub(super) conversations: Vec<Conversation>,
    /// The tokens of a prompt. Further rows of a tape are padding.
    pub(super) prompt: Vec<u32>,
    /// The images of the prompt.
    pub(super) images: Images,
    /// The tokens that may be chosen without a guide; `None` means all.
    pub(super) allowed: Option<Mask>,
    /// The active slot.
    pub(super) slot: usize,
    /// The slots of a step's rows. Further rows of a tape are padding.
    pub(super) rows: Vec<usize>,
    /// The tokens of rows that are not the first of their slot.
    pub(super) given: Vec<Given>,
    runs: Vec<Run>,
    /// The tokens that the rows of the last pass of a head have guessed.
    pub(super) guessed: Vec<Option<u32>>,
    pub(super) precision: Precision,
    /// Tokens chosen since the start.
    pub(super) chosen: u64,
    /// The timestamps of operations, if they are measured.
    pub(super) timestamps: Option<Timestamps>,
    threads: Threads,
}

/// The state of a conversation, and how its tokens are chosen.
#[derive(Clone, Debug, Default)]
pub(super) struct Conversation {
    pub(super) state: StepState,
    /// The distance from a row's position to the position that it rotates by.
    pub(super) rotary_offset: isize,
    pub(super) sampler: Sampler,
    pub(super) guide: Guide,
    /// The masks after the guesses of the next step that were not used yet, in order.
    pub(super) guesses: VecDeque<Promise>,
    /// Whether the last step found no mask.
    pub(super) awaits_mask: bool,
    /// The probabilities of each choice of the last run.
    pub(super) scored: Vec<Vec<Scored>>,
}

/// The tokens that a conversation may choose next.
#[derive(Clone, Debug, Default)]
pub(super) enum Guide {
    #[default]
    Free,
    /// A mask has to arrive before a token is chosen.
    Awaited,
    Allows(Mask),
    /// The mask is still being computed.
    Later(Promise),
}

/// Memory that `prepare` allocates and `run` never moves.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// The values of each buffer, long enough for every prepared tape.
    pub(super) activations: Vec<Vec<f32>>,
    /// The buffers that preempted prompts and a preempted step continue with.
    pub(super) saved: [Vec<f32>; PLACES],
    /// (rows, hidden): the normed rows of the current operation
    pub(super) normed: Vec<f32>,
    /// (outputs, rows): a product before it is transposed into its buffer
    pub(super) product: Vec<f32>,
    /// The results of the splits of a step's attention, before they are merged.
    pub(super) partials: Vec<f32>,
}

impl Core {
    pub(super) fn new(
        weights: Vec<Weight>,
        angles: Vec<Angles>,
        kv: KvInfo,
        threads: Threads,
    ) -> Self {
        Self {
            weights,
            angles,
            cache: Cache::new(kv),
            states: None,
            buffers: Buffers::default(),
            conversations: vec![Conversation::default(); kv.slots],
            prompt: Vec::new(),
            images: Images::default(),
            allowed: None,
            slot: 0,
            rows: vec![0],
            given: Vec::new(),
            runs: Vec::new(),
            guessed: Vec::new(),
            precision: Precision::F32,
            chosen: 0,
            timestamps: None,
            threads,
        }
    }

    pub(super) fn threads(&self) -> &Threads {
        &self.threads
    }

    /// Replaces the cache by an empty one, and frees the memory of activations.
    pub(super) fn replace_cache(&mut self, kv: KvInfo) {
        self.cache = Cache::new(kv);
        self.states = None;
        self.buffers = Buffers::default();
        self.conversations = vec![Conversation::default(); kv.slots];
        self.slot = 0;
        self.rows = vec![0];
        self.prompt.clear();
        self.images.clear();
        self.given.clear();
    }

    /// One row of the logits of a tape that ends with `Ending::Logits`.
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

    /// Runs operations of a prepared tape in a slot.
    pub(super) fn run(
        &mut self,
        tape: &Tape,
        operations: Range<usize>,
        slot: usize,
    ) -> Result<(), ExecuteError> {
        let threads = self.threads.clone();
        let mut runs = std::mem::take(&mut self.runs);
        self.fill(&mut runs, tape, slot);
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

    /// Lists the runs of a tape: all rows of a prompt are one run, and each row of a step is one.
    fn fill(&self, runs: &mut Vec<Run>, tape: &Tape, slot: usize) {
        let run = |slot: usize, rows: Range<usize>| {
            let Conversation {
                state,
                rotary_offset,
                ..
            } = self.conversations[slot];
            Run {
                slot,
                state,
                turned: state.position.saturating_add_signed(rotary_offset),
                rows,
                given: None,
                chooses: true,
            }
        };
        runs.clear();
        match tape.input {
            Input::Prompt => runs.push(run(slot, 0..self.prompt.len())),
            // An image belongs to no conversation.
            Input::Patches { .. } => {}
            Input::Step if tape.rows == 1 => runs.push(run(slot, 0..1)),
            Input::Step => {
                let assists = tape.assists();
                let mut given = self.given.iter();
                for (row, slot) in self.rows.iter().enumerate() {
                    let (before, after) = (&self.rows[..row], &self.rows[row + 1..]);
                    let back = before.iter().filter(|other| *other == slot).count();
                    let mut run = run(*slot, row..row + 1);
                    if assists {
                        // The last position with keys. It rotates by that of the token.
                        run.state.position = run.state.position.saturating_sub(1);
                    } else {
                        run.state.position += back;
                        run.turned += back;
                    }
                    if back > 0
                        && let Some(given) = given.next()
                    {
                        run.state.token = given.token();
                        run.given = Some(*given);
                    }
                    // The next one belongs to the row behind, if that is of the same slot.
                    let guesses = given.as_slice().first().is_some_and(|next| next.is_guess());
                    run.chooses = guesses || !after.contains(slot);
                    runs.push(run);
                }
            }
        }
    }

    #[allow(clippy::too_many_lines)] // one arm an operation: in the order of op.rs
    fn execute(&mut self, tape: &Tape, op: &Op, runs: &[Run]) -> Result<(), ExecuteError> {
        let precision = self.precision;
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
            states,
            conversations,
            prompt,
            images,
            ..
        } = self;
        // Padding rows are computed where that does no harm, and never stored.
        let (rows, real) = (
            tape.rows,
            runs.iter().map(|run| run.rows.len()).sum::<usize>(),
        );
        let len = |buffer: Buffer| tape.buffer(buffer).rows * tape.buffer(buffer).columns;
        let real_len = |buffer: Buffer| real * tape.buffer(buffer).columns;
        let family = match tape.input {
            Input::Step => Family::Step(precision),
            Input::Prompt | Input::Patches { .. } => Family::Prompt(precision),
        };
        let token_of = |row: usize| match tape.input {
            Input::Prompt | Input::Patches { .. } => prompt[row],
            Input::Step => runs[row].state.token,
        };
        match *op {
            Op::Embed { table, scale, x } => {
                let table = weights[table.0].matrix();
                let all = activations[x.0].chunks_exact_mut(table.columns());
                for (row, out) in all.take(real).enumerate() {
                    table.dequantize_row(token_row(token_of(row), table.rows())?, out);
                    out.iter_mut().for_each(|value| *value *= scale);
                }
            }
            Op::Qkv {
                x,
                norm,
                epsilon,
                ref projections,
            } => {
                let normed = &mut normed[..len(x)];
                norm::rms_norm(&activations[x.0], weights[norm.0].vector(), epsilon, normed);
                tape.activation.round(normed);
                let all = projections.iter().map(|to| len(to.out)).sum();
                let mut product = &mut product[..all];
                let matrices = projections.iter().map(|of| weights[of.weight.0].matrix());
                let matrices: Vec<_> = matrices.collect();
                matmul::multiply(family, &matrices, normed, rows, product);
                for Projection { bias, out, .. } in projections {
                    let bias = bias.map(|bias| weights[bias.0].vector());
                    let (own, others) = product.split_at_mut(len(*out));
                    matmul::transpose(own, rows, &mut activations[out.0], |out, y, output| {
                        *out = y + bias.map_or(0.0, |bias| bias[output]);
                    });
                    product = others;
                }
            }
            Op::RopeStore {
                layer,
                q,
                kv,
                norms,
                epsilon,
                rotation,
                rotated,
            } => {
                let mut out = std::mem::take(&mut activations[rotated.0]);
                out[..len(q)].copy_from_slice(&activations[q.0][..len(q)]);
                let vector = |norm: Option<WeightId>| norm.map(|norm| weights[norm.0].vector());
                let of_heads = (tape.kv.kind(layer).head_dim, epsilon);
                let sides = [vector(norms.q), vector(norms.k)];
                let [of_q, of_k] = rope::Rope::of(rotation, &self.angles, sides, of_heads);
                let columns = |buffer: Buffer| tape.buffer(buffer).columns;
                for run in runs {
                    let (wide, position) = (columns(q), run.state.position);
                    let places = images.places(run);
                    of_q.rotate(&mut out[run.of(wide)], wide, places);
                    let Some([k, v]) = kv else {
                        continue;
                    };
                    let (narrow, rows) = (columns(k), run.of(columns(k)));
                    let (stored_k, stored_v) = product[..2 * len(k)].split_at_mut(len(k));
                    let (stored_k, stored_v) =
                        (&mut stored_k[rows.clone()], &mut stored_v[rows.clone()]);
                    stored_k.copy_from_slice(&activations[k.0][rows.clone()]);
                    stored_v.copy_from_slice(&activations[v.0][rows]);
                    of_k.rotate(stored_k, narrow, places);
                    if norms.v {
                        norm::heads(stored_v, of_heads);
                    }
                    cache.store((run.slot, layer), position, stored_k, stored_v);
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
                let joined = if attention.joins_images {
                    &images.spans[..]
                } else {
                    &[]
                };
                for run in runs {
                    let shape = attention::Heads {
                        columns: tape.buffer(q).columns,
                        position: run.state.position,
                        images: joined,
                        activation: tape.activation,
                        attention,
                        sinks,
                    };
                    let (place, rows) = ((run.slot, layer), run.of(shape.columns));
                    let (q, out) = (&activations[q.0][rows.clone()], &mut attended[rows]);
                    match family {
                        Family::Step(_) => {
                            attention::attend_step(cache, place, shape, q, partials, out);
                        }
                        Family::Prompt(_) => attention::attend(cache, place, shape, q, out),
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
            Op::Product { input, weight, out } => {
                let product = &mut product[..len(out)];
                let weight = weights[weight.0].matrix();
                let mut rounded = &activations[input.0][..len(input)];
                if tape.buffer(input).dtype != tape.activation {
                    let normed = &mut normed[..len(input)];
                    normed.copy_from_slice(rounded);
                    tape.activation.round(normed);
                    rounded = normed;
                }
                matmul::multiply(family, &[weight], rounded, rows, product);
                matmul::transpose(product, rows, &mut activations[out.0], |out, y, _| *out = y);
            }
            Op::AddNormed {
                y,
                norm,
                epsilon,
                scale,
                x,
            } => {
                let normed = &mut normed[..len(y)];
                norm::rms_norm(&activations[y.0], weights[norm.0].vector(), epsilon, normed);
                let scale = scale.map_or(1.0, |scale| weights[scale.0].vector()[0]);
                for (x, added) in activations[x.0].iter_mut().zip(normed) {
                    *x = scale * (*x + *added);
                }
            }
            Op::Norm {
                x,
                norm,
                epsilon,
                first,
                out,
            } => {
                let normed = &mut normed[..len(x)];
                norm::rms_norm(&activations[x.0], weights[norm.0].vector(), epsilon, normed);
                let (narrow, wide) = (tape.buffer(x).columns, tape.buffer(out).columns);
                let rows = activations[out.0].chunks_exact_mut(wide);
                for (out, normed) in rows.zip(normed.chunks_exact(narrow)) {
                    out[first..][..narrow].copy_from_slice(normed);
                }
            }
            Op::LayerInputs {
                table,
                scale,
                norm,
                epsilon,
                inputs,
            } => {
                let table = weights[table.0].matrix();
                let normed = &mut normed[..len(inputs)];
                norm::rms_norm(
                    &activations[inputs.0],
                    weights[norm.0].vector(),
                    epsilon,
                    normed,
                );
                let all = activations[inputs.0].chunks_exact_mut(table.columns());
                let rows = all.zip(normed.chunks_exact(table.columns())).take(real);
                for (row, (out, normed)) in rows.enumerate() {
                    let token = token_of(row);
                    table.dequantize_row(token_row(token, table.rows())?, out);
                    for (out, normed) in out.iter_mut().zip(normed) {
                        *out = (scale * *out + normed) * std::f32::consts::FRAC_1_SQRT_2;
                    }
                }
            }
            Op::Gate {
                gate,
                input,
                first,
                activation,
                out,
            } => {
                let width = tape.buffer(gate).columns;
                let mut gated = std::mem::take(&mut activations[out.0]);
                let result = &mut gated[..len(out)];
                match input {
                    None => result.fill(1.0),
                    Some(input) => {
                        let inputs = &activations[input.0];
                        let inputs = inputs.chunks_exact(tape.buffer(input).columns);
                        for (out, input) in result.chunks_exact_mut(width).zip(inputs) {
                            out.copy_from_slice(&input[first..][..width]);
                        }
                    }
                }
                matmul::gate(&activations[gate.0][..len(gate)], activation, result);
                tape.buffer(out).dtype.round(result);
                activations[out.0] = gated;
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
                    activation,
                    (output, product),
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
                // A prompt has logits for its last real rows, and a step for all rows.
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
            Op::Softcap { logits, cap } => {
                for logit in &mut activations[logits.0][..len(logits)] {
                    *logit = cap * (*logit / cap).tanh();
                }
            }
            Op::Images(op) => {
                let mut x = std::mem::take(&mut activations[op.x().0]);
                images.apply(op, tape, &activations[op.rows().0], &mut x);
                activations[op.x().0] = x;
            }
            Op::Recurrent(ref op) => {
                let Some(states) = states else {
                    return Ok(());
                };
                let memory = Memory {
                    states,
                    weights,
                    activations,
                    scratch: normed,
                    product,
                };
                let advanced = |slot: usize, end| {
                    tape.ending != Ending::Token || conversations[slot].state.position == end
                };
                let groups = groups(runs, tape.input);
                recurrent::execute(op, tape, &groups, memory, advanced)?;
            }
            Op::Hidden(op) => hidden::execute(op, tape, runs, activations),
            Op::Vision(ref op) => {
                let mut memory = vision::Memory {
                    weights,
                    activations,
                    rounded: normed,
                    product,
                };
                vision::execute(op, tape, &mut memory);
            }
            Op::Sample { logits } if tape.guesses() => self.guess(tape, logits, runs),
            Op::Sample { logits } => self.sample(tape, logits, runs)?,
        }
        Ok(())
    }
}

/// The row of a table for a token.
fn token_row(token: u32, vocabulary: usize) -> Result<usize, ExecuteError> {
    let row = usize::try_from(token).ok().filter(|row| *row < vocabulary);
    row.ok_or(ExecuteError::Token { token, vocabulary })
}

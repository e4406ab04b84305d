//! From operations to launches: one match, in the order of `op.rs`.

use std::ops::Range;

use super::kernels::{Kernels, prompt_attend};
use super::memory::{Part, Slots, Weight, stride};
use super::narrow;
use super::product::Outcome;
use super::prompt::Prompt;
use super::queue::Queue;
use super::pages::Pages;
use super::scratch;
use crate::device::{
    AttendArgs, Cache, ChooseArgs, Command, EmbedArgs, Error, Geometry, NormArgs, Places, RopeStoreArgs, Row, StepArgs,
    Tiles,
};
use crate::graph::Trace;
use crate::tape::{Ending, Input, KvInfo, Op, Projection, Slot, Tape, WeightId};

/// Threads of a block of every kernel but `choose`.
const THREADS: u32 = 256;
const WARPS: u32 = 8;
/// `choose.cu`
const CHOOSE_THREADS: u32 = 1024;
pub(super) const CHOOSE_BLOCKS: u32 = 64;
/// `step/attend.cu`: query heads taken at a time, the most splits of a row.
const GROUP: usize = 4;
const MOST_SPLITS: usize = 64;
/// Blocks that a row's attention is split into, where it is long: enough to keep any device busy, and the same on all.
const SPLIT_BLOCKS: usize = 256;

/// Addresses that never change.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Addresses {
    pub(super) conversations: u64,
    pub(super) tables: u64,
    /// Of a step.
    pub(super) rows: u64,
    /// A command, whose row is the prompt's, then tokens.
    pub(super) prompt: u64,
    pub(super) sequence: u64,
    pub(super) angles: u64,
    pub(super) arrivals: u64,
    pub(super) best: u64,
    /// In pinned memory: commands of steps, chosen tokens, the host's tables.
    pub(super) steps: u64,
    pub(super) tokens: u64,
    pub(super) host_tables: u64,
}

/// Heads of a cache times the groups of query heads that share one.
const fn subgroups(kv: KvInfo, heads: usize) -> usize {
    kv.heads * (heads / kv.heads).div_ceil(GROUP)
}

/// Into how many parts a row may be split.
fn splits(kv: KvInfo, heads: usize) -> usize {
    (SPLIT_BLOCKS / subgroups(kv, heads)).clamp(16, MOST_SPLITS)
}

/// Bytes of the parts that a step's attention of `columns` of q leaves for its merge: of each head and split
/// a maximum, a sum and an output.
pub(super) fn partial_bytes(kv: KvInfo, rows: usize, columns: usize) -> usize {
    4 * rows * subgroups(kv, columns / kv.head_dim) * GROUP * MOST_SPLITS * (kv.head_dim + 2)
}

/// Counters at which blocks of a step leave their arrival: a row's attention has one for each group of heads, and a
/// head of the cache has no more of those than `MOST_GROUPS`.
pub(super) const fn most_arrivals(kv: KvInfo) -> usize {
    const MOST_GROUPS: usize = 64;
    crate::device::STEP_ROWS * kv.heads * MOST_GROUPS
}

/// What a step's attention does on the way: q, k and v as they left their product.
struct Raw {
    inputs: [Slot; 3],
    norms: Option<[WeightId; 2]>,
    epsilon: f32,
}

/// What attention of a step takes on, where it follows the rotation of what it attends to: both are one kernel then.
fn raw(tape: &Tape, index: usize) -> Option<Raw> {
    let before = index.checked_sub(1)?;
    match (&tape.ops[before], &tape.ops[index]) {
        (
            &Op::RopeStore {
                layer,
                inputs,
                norms,
                epsilon,
                rotated,
            },
            &Op::Attend { layer: of, q, .. },
        ) if tape.input == Input::Step && layer == of && rotated == q => Some(Raw {
            inputs,
            norms,
            epsilon,
        }),
        _ => None,
    }
}

/// All that a launch needs; nothing here changes while a tape runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work<'a> {
    pub(super) kernels: &'a Kernels,
    pub(super) multiprocessors: u32,
    pub(super) weights: &'a [Weight],
    pub(super) slots: &'a Slots,
    pub(super) addresses: &'a Addresses,
    pub(super) pages: &'a Pages,
    pub(super) kv: KvInfo,
}

impl Work<'_> {
    /// The places that its launches share, by name.
    pub(super) fn places(&self, tape: &Tape, trace: &mut Trace) {
        for (index, info) in tape.slots.iter().enumerate() {
            trace.place(info.name, self.slot(Slot(index)));
        }
        trace.place("normed", self.slots.normed());
        trace.place("sums", self.slots.sums());
        trace.place("partials", self.slots.partials());
        trace.place("conversations", self.addresses.conversations);
        trace.place("tables", self.addresses.tables);
        trace.place("angles", self.addresses.angles);
    }

    /// Queues operations of a tape.
    pub(super) fn run(
        &self,
        tape: &Tape,
        operations: Range<usize>,
        queue: &mut Queue<'_>,
    ) -> Result<(), Error> {
        let Range { start, end } = operations;
        (start..end).try_for_each(|index| {
            queue.begin(index, tape.ops[index].name());
            // What is one kernel is launched by the second of both.
            if index + 1 < end && raw(tape, index + 1).is_some() {
                return Ok(());
            }
            let raw = raw(tape, index).filter(|_| index > start);
            self.launch(tape, index, raw, queue)
        })
    }

    #[allow(clippy::too_many_lines)] // one arm an operation: it reads beside op.rs
    fn launch(
        &self,
        tape: &Tape,
        index: usize,
        raw: Option<Raw>,
        queue: &mut Queue<'_>,
    ) -> Result<(), Error> {
        let Self {
            kernels,
            addresses: at,
            kv,
            ..
        } = *self;
        let rows = narrow(tape.rows);
        let step = tape.input == Input::Step;
        let places = self.places_of(step);
        // How many rows of a prompt are real.
        let count = if step { 0 } else { at.prompt + Row::COUNT_AT };
        let columns = |slot: Slot| narrow(tape.slot(slot).columns);
        match tape.ops[index] {
            Op::Embed { table, x } => {
                for Part { first, tiles } in self.parts(table) {
                    let args = EmbedArgs {
                        table: *tiles,
                        places,
                        commands: if step { at.steps } else { at.prompt },
                        host_tables: at.host_tables,
                        sequence: at.sequence,
                        tokens: at.prompt + Command::TOKENS_AT,
                        x: self.slot(x),
                        stamp: queue.stamp(),
                        hidden: columns(x),
                        first: narrow(*first),
                    };
                    queue.launch(&kernels.embed, Geometry::new(rows, THREADS), &args)?;
                }
                Ok(())
            }
            Op::Qkv {
                x,
                norm,
                epsilon,
                projections,
                outputs,
            } => {
                let matrices = projections.map(|Projection { weight, .. }| self.whole(weight));
                let biases = projections.map(|p| p.bias.map_or(0, |bias| self.vector(bias)));
                let filled = outputs.map(|out| self.slot(out));
                if !step {
                    let prompt = self.prompt(tape);
                    let input = prompt.norm(queue, (x, norm, epsilon))?;
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
                    ..self.of_normed(tape, (x, norm, epsilon), queue)?
                };
                self.product(queue, args)
            }
            Op::RopeStore {
                layer,
                inputs: [q, k, v],
                norms,
                epsilon,
                rotated,
            } => {
                let [q_norm, k_norm] =
                    norms.map_or([0, 0], |norms| norms.map(|norm| self.vector(norm)));
                let cache = self.cache(places, layer, columns(q));
                let args = RopeStoreArgs {
                    cache,
                    q: self.slot(q),
                    k: self.slot(k),
                    v: self.slot(v),
                    q_norm,
                    k_norm,
                    angles: at.angles,
                    out: self.slot(rotated),
                    stamp: queue.stamp(),
                    stride: narrow(stride(tape, rotated)),
                    epsilon,
                };
                let all = cache.heads + 2 * cache.kv_heads;
                let geometry = Geometry {
                    grid: [all.div_ceil(WARPS), rows, 1],
                    ..Geometry::new(1, THREADS)
                };
                queue.launch(kernels.rope_store(kv.dtype), geometry, &args)
            }
            Op::Attend { layer, q, out } => {
                #[allow(clippy::cast_precision_loss)] // a head is far narrower than 2^24
                let scale = 1.0 / (kv.head_dim as f32).sqrt();
                let cache = self.cache(places, layer, columns(q));
                let mut args = AttendArgs {
                    cache,
                    q: self.slot(q),
                    out: self.slot(out),
                    partials: self.slots.partials(),
                    arrivals: at.arrivals,
                    stamp: queue.stamp(),
                    rows,
                    stride: narrow(stride(tape, q)),
                    scale,
                    splits: 1,
                    ..AttendArgs::default()
                };
                if !step && let Some(kernel) = kernels.prompt_attend(kv.dtype, kv.head_dim) {
                    let group = tape.slot(q).columns / kv.head_dim / kv.heads;
                    let blocks = (tape.rows * group).div_ceil(prompt_attend::rows(kv.head_dim));
                    let geometry = Geometry {
                        grid: [narrow(blocks), narrow(kv.heads), 1],
                        shared: narrow(prompt_attend::shared(kv.head_dim)),
                        ..Geometry::new(1, prompt_attend::THREADS)
                    };
                    return queue.launch(kernel, geometry, &args);
                }
                if let Some(raw) = raw {
                    let [q, k, v] = raw.inputs.map(|slot| self.slot(slot));
                    let [q_norm, k_norm] = raw
                        .norms
                        .map_or([0, 0], |norms| norms.map(|norm| self.vector(norm)));
                    args = AttendArgs {
                        q,
                        k,
                        v,
                        q_norm,
                        k_norm,
                        angles: at.angles,
                        epsilon: raw.epsilon,
                        ..args
                    };
                }
                let heads = cache.heads as usize;
                // A prompt has enough rows to keep the device busy without splitting them.
                if step {
                    args.splits = narrow(splits(kv, heads));
                }
                let (kernel, shared) = kernels.attend(kv.dtype, kv.head_dim);
                // Blocks of a row go from split to split: all of them fit the device at once.
                let groups = subgroups(kv, heads);
                let blocks = (SPLIT_BLOCKS / groups / tape.rows).clamp(1, args.splits as usize);
                let blocks = if step { narrow(blocks) } else { 1 };
                let geometry = Geometry {
                    grid: [blocks, narrow(groups), rows],
                    shared: narrow(shared),
                    ..Geometry::new(1, THREADS)
                };
                queue.launch(kernel, geometry, &args)
            }
            Op::Project { input, weight, x } => {
                let weight = self.whole(weight);
                if !step {
                    let prompt = self.prompt(tape);
                    let input = prompt.summed(queue, input, weight)?;
                    return prompt.project(queue, input, weight, self.slot(x));
                }
                let args = StepArgs {
                    weight0: weight,
                    out0: self.slot(x),
                    input: self.slot(input),
                    stamp: queue.stamp(),
                    stride: narrow(stride(tape, input)),
                    outcome: Outcome::Added as u32,
                    rows,
                    ..StepArgs::default()
                };
                self.product(queue, args)
            }
            Op::GateUp {
                x,
                norm,
                epsilon,
                gate,
                up,
                out,
            } => {
                let (gate, up) = (self.whole(gate), self.whole(up));
                let out_stride = narrow(stride(tape, out));
                if !step {
                    let prompt = self.prompt(tape);
                    let input = prompt.norm(queue, (x, norm, epsilon))?;
                    return prompt.gate_up(queue, input, [gate, up], (self.slot(out), out_stride));
                }
                let args = StepArgs {
                    weight0: gate,
                    weight1: up,
                    out0: self.slot(out),
                    out_stride,
                    ..self.of_normed(tape, (x, norm, epsilon), queue)?
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
                let scored = tape.slot(logits).rows;
                let (logits, out_stride) = (self.slot(logits), columns(logits));
                // A row of a prompt has one family's bits, also where it is the only one.
                if !step && (scored > 1 || tape.ending == Ending::Logits) {
                    let prompt = self.prompt(tape);
                    let input = prompt.norm(queue, (x, norm, epsilon))?;
                    for Part { first, tiles } in self.parts(weight) {
                        let out = (logits + 4 * *first as u64, out_stride);
                        prompt.head(queue, input, *tiles, out)?;
                    }
                    return Ok(());
                }
                // Of a prompt the last real row, which the device knows.
                let normed = self.of_normed(tape, (x, norm, epsilon), queue)?;
                for Part { first, tiles } in self.parts(weight) {
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
            Op::Choose { logits } => {
                let args = ChooseArgs {
                    places,
                    logits: self.slot(logits),
                    partials: at.best,
                    arrivals: at.arrivals,
                    sequence: at.sequence,
                    tokens: at.tokens,
                    stamp: queue.stamp(),
                    vocabulary: columns(logits),
                    pad: 0,
                };
                let geometry = Geometry {
                    grid: [CHOOSE_BLOCKS, narrow(tape.slot(logits).rows), 1],
                    ..Geometry::new(1, CHOOSE_THREADS)
                };
                queue.launch(&kernels.choose, geometry, &args)
            }
        }
    }

    fn places_of(&self, step: bool) -> Places {
        let at = self.addresses;
        Places {
            conversations: at.conversations,
            tables: at.tables,
            rows: if step { at.rows } else { at.prompt },
            pages: narrow(scratch::pages(self.kv)),
            step: step.into(),
        }
    }

    /// A layer's cache, met by queries of so many columns.
    fn cache(&self, places: Places, layer: usize, columns: u32) -> Cache {
        let [k, v] = self.pages.within(layer);
        let head_dim = narrow(self.kv.head_dim);
        Cache {
            places,
            k,
            v,
            heads: columns / head_dim,
            kv_heads: narrow(self.kv.heads),
            head_dim,
            rotated: head_dim,
        }
    }

    /// A product with a norm's rows: of one on the way, of several before.
    fn of_normed(
        &self,
        tape: &Tape,
        (x, norm, epsilon): (Slot, WeightId, f32),
        queue: &mut Queue<'_>,
    ) -> Result<StepArgs, Error> {
        let hidden = narrow(tape.slot(x).columns);
        // Of a prompt the last one.
        let rows = if tape.input == Input::Step {
            narrow(tape.rows)
        } else {
            1
        };
        let args = StepArgs {
            x: self.slot(x),
            norm: self.vector(norm),
            stamp: queue.stamp(),
            hidden,
            stride: hidden.next_multiple_of(64),
            epsilon,
            rows,
            ..StepArgs::default()
        };
        if rows == 1 {
            return Ok(args);
        }
        let before = NormArgs {
            x: args.x,
            weight: args.norm,
            out: self.slots.normed(),
            stamp: args.stamp,
            hidden,
            stride: args.stride,
            epsilon,
            ..NormArgs::default()
        };
        let geometry = Geometry::new(rows, THREADS);
        queue.launch(&self.kernels.step_norm, geometry, &before)?;
        Ok(StepArgs {
            input: before.out,
            ..args
        })
    }

    /// What launches a prompt's products.
    fn prompt<'p>(&'p self, tape: &'p Tape) -> Prompt<'p> {
        Prompt { work: self, tape }
    }

    pub(super) fn slot(&self, slot: Slot) -> u64 {
        self.slots.address(slot)
    }

    pub(super) fn vector(&self, id: WeightId) -> u64 {
        self.weights[id.0].vector()
    }

    fn parts(&self, id: WeightId) -> &[Part] {
        self.weights[id.0].parts()
    }

    /// A matrix that fits a chunk, as all but embeddings and heads do.
    fn whole(&self, id: WeightId) -> Tiles {
        self.parts(id)[0].tiles
    }
}

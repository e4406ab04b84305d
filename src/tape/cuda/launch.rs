//! From operations to launches: one match, in the order of `op.rs`.

use std::ops::Range;

use super::kernels::{Kernels, prompt_attend};
use super::memory::{Part, Slots, Weight, stride};
use super::narrow;
use super::product::Outcome;
use super::prompt::Prompt;
use super::queue::Queue;
use crate::device::{
    AttendArgs, ChooseArgs, EmbedArgs, Error, Geometry, RopeStoreArgs, StepArgs, Tiles,
};
use crate::graph::Trace;
use crate::tape::{Ending, Input, KvInfo, Op, Projection, Slot, Tape, WeightId};

/// Threads of a block of every kernel but `choose`.
const THREADS: u32 = 256;
const WARPS: u32 = 8;
/// `choose.cu`
const CHOOSE_THREADS: u32 = 1024;
pub(super) const CHOOSE_BLOCKS: u32 = 64;
/// `attend.cu`: positions at a time, the most splits of a row, query heads taken at a time, groups of threads that
/// share a chunk.
const CHUNK: usize = 128;
const MOST_SPLITS: usize = 64;
const GROUP: usize = 4;
const MOST_SHARES: usize = 32;

/// Addresses that never change.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Addresses {
    pub(super) state: u64,
    /// The first row's position, how many rows there are, then their tokens.
    pub(super) prompt: u64,
    pub(super) angles: u64,
    pub(super) arrivals: u64,
    pub(super) best: u64,
    pub(super) step_mailbox: u64,
    pub(super) token_mailbox: u64,
}

/// Bytes of the parts that a step's attention of `columns` of q leaves for its merge: of each head and split
/// a maximum, a sum and an output.
pub(super) fn partial_bytes(kv: KvInfo, columns: usize) -> usize {
    4 * columns / kv.head_dim * MOST_SPLITS * (kv.head_dim + 2)
}

/// All that a launch needs; nothing here changes while a tape runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work<'a> {
    pub(super) kernels: &'a Kernels,
    pub(super) multiprocessors: u32,
    pub(super) weights: &'a [Weight],
    pub(super) slots: &'a Slots,
    pub(super) addresses: &'a Addresses,
    pub(super) cache: (&'a [u64], &'a [u64]),
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
        trace.place("state", self.addresses.state);
        trace.place("prompt", self.addresses.prompt);
        trace.place("angles", self.addresses.angles);
        trace.place("kv", self.cache.0.first().copied().unwrap_or(0));
    }

    /// Queues operations of a tape.
    pub(super) fn run(
        &self,
        tape: &Tape,
        operations: Range<usize>,
        queue: &mut Queue<'_>,
    ) -> Result<(), Error> {
        operations.into_iter().try_for_each(|index| {
            let op = &tape.ops[index];
            queue.begin(index, op.name());
            self.launch(tape, op, queue)
        })
    }

    #[allow(clippy::too_many_lines)] // one arm an operation: it reads beside op.rs
    fn launch(&self, tape: &Tape, op: &Op, queue: &mut Queue<'_>) -> Result<(), Error> {
        let Self {
            kernels,
            addresses: at,
            kv,
            ..
        } = *self;
        let rows = narrow(tape.rows);
        let step = tape.input == Input::Step;
        let (position, count) = if step {
            (at.state + 4, 0)
        } else {
            (at.prompt, at.prompt + 4)
        };
        let columns = |slot: Slot| narrow(tape.slot(slot).columns);
        match *op {
            Op::Embed { table, x } => {
                for (index, Part { first, tiles }) in self.parts(table).iter().enumerate() {
                    let source = if !step {
                        0
                    } else if index == 0 {
                        1
                    } else {
                        2
                    };
                    let args = EmbedArgs {
                        table: *tiles,
                        state: at.state,
                        mailbox: at.step_mailbox,
                        tokens: at.prompt + 8,
                        count,
                        x: self.slot(x),
                        stamp: queue.stamp(),
                        hidden: columns(x),
                        first: narrow(*first),
                        source,
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
                    ..self.of_normed(tape, (x, norm, epsilon), queue)
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
                let heads = columns(q) / narrow(kv.head_dim);
                let args = RopeStoreArgs {
                    q: self.slot(q),
                    k: self.slot(k),
                    v: self.slot(v),
                    q_norm,
                    k_norm,
                    angles: at.angles,
                    rotated: self.slot(rotated),
                    cache_k: self.cache.0[layer],
                    cache_v: self.cache.1[layer],
                    position,
                    count,
                    stamp: queue.stamp(),
                    rows,
                    heads,
                    kv_heads: narrow(kv.heads),
                    head_dim: narrow(kv.head_dim),
                    context: narrow(kv.context),
                    stride: narrow(stride(tape, rotated)),
                    epsilon,
                    pad: 0,
                };
                let all = heads + 2 * narrow(kv.heads);
                let geometry = Geometry {
                    grid: [all.div_ceil(WARPS), rows, 1],
                    ..Geometry::new(1, THREADS)
                };
                queue.launch(kernels.rope_store(step, kv.dtype), geometry, &args)
            }
            Op::Attend { layer, q, out } => {
                #[allow(clippy::cast_precision_loss)] // a head is far narrower than 2^24
                let scale = 1.0 / (kv.head_dim as f32).sqrt();
                let args = AttendArgs {
                    q: self.slot(q),
                    cache_k: self.cache.0[layer],
                    cache_v: self.cache.1[layer],
                    out: self.slot(out),
                    partials: self.slots.partials(),
                    arrivals: at.arrivals,
                    position,
                    count,
                    stamp: queue.stamp(),
                    heads: columns(q) / narrow(kv.head_dim),
                    kv_heads: narrow(kv.heads),
                    head_dim: narrow(kv.head_dim),
                    context: narrow(kv.context),
                    stride: narrow(stride(tape, q)),
                    scale,
                    rows,
                    pad: 0,
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
                let piece = 16 / kv.dtype.bytes();
                let shares = (THREADS as usize * piece / kv.head_dim).min(MOST_SHARES);
                let bytes = 4 * GROUP * (kv.head_dim + CHUNK + shares * kv.head_dim);
                // A prompt has enough rows to keep the device busy without splitting them.
                let splits = if step {
                    narrow(kv.context.div_ceil(CHUNK).min(MOST_SPLITS))
                } else {
                    1
                };
                let grid = [narrow(kv.heads), rows, splits];
                let geometry = Geometry {
                    grid,
                    shared: narrow(bytes),
                    ..Geometry::new(1, THREADS)
                };
                queue.launch(kernels.attend(kv.dtype), geometry, &args)
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
                let scored = tape.slot(logits).rows;
                let (logits, out_stride) = (self.slot(logits), columns(logits));
                // A row of a prompt has one family's bits, also where it is the only one.
                if scored > 1 || tape.ending == Ending::Logits {
                    let prompt = self.prompt(tape);
                    let input = prompt.norm(queue, (x, norm, epsilon))?;
                    for Part { first, tiles } in self.parts(weight) {
                        let out = (logits + 4 * *first as u64, out_stride);
                        prompt.head(queue, input, *tiles, out)?;
                    }
                    return Ok(());
                }
                // One row is the last real one, which the device knows.
                for Part { first, tiles } in self.parts(weight) {
                    let args = StepArgs {
                        weight0: *tiles,
                        out0: logits + 4 * *first as u64,
                        count,
                        ..self.of_normed(tape, (x, norm, epsilon), queue)
                    };
                    self.product(queue, args)?;
                }
                Ok(())
            }
            Op::Choose { logits } => {
                let args = ChooseArgs {
                    logits: self.slot(logits),
                    partials: at.best,
                    arrivals: at.arrivals,
                    state: at.state,
                    token_mailbox: at.token_mailbox,
                    position,
                    count,
                    stamp: queue.stamp(),
                    vocabulary: columns(logits),
                    rows,
                };
                queue.launch(
                    &kernels.choose,
                    Geometry::new(CHOOSE_BLOCKS, CHOOSE_THREADS),
                    &args,
                )
            }
        }
    }

    /// A product with a norm's row.
    fn of_normed(
        &self,
        tape: &Tape,
        (x, norm, epsilon): (Slot, WeightId, f32),
        queue: &Queue<'_>,
    ) -> StepArgs {
        let hidden = narrow(tape.slot(x).columns);
        StepArgs {
            x: self.slot(x),
            norm: self.vector(norm),
            stamp: queue.stamp(),
            hidden,
            stride: hidden.next_multiple_of(64),
            epsilon,
            ..StepArgs::default()
        }
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

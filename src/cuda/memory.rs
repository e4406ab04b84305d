//! The memory of weights and buffers on the device.

use std::collections::HashSet;
use std::ops::Range;
use std::rc::Rc;

use super::encode_needs::TowerNeeds;
use super::prompt_attend;
use super::splits;
use crate::device::{
    Arena, CHUNK_BYTES, Context, Error, MemoryKind, Plan, Region, RowSpans, Stream, Tiles,
};
use crate::executor::PLACES;
use crate::quant::{DType, Storage, TILE_ROWS, padded};
use crate::tape::{Buffer, BufferInfo, Input, Op, Tape, WeightInfo};

/// The memory to use; `None` is unified memory on an integrated device, and the device's own on others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    pub weights: Option<MemoryKind>,
    pub kv: Option<MemoryKind>,
}

impl Places {
    pub(super) fn weights(self, integrated: bool) -> MemoryKind {
        self.weights.unwrap_or(natural(integrated))
    }

    pub(super) fn kv(self, integrated: bool) -> MemoryKind {
        self.kv.unwrap_or(natural(integrated))
    }
}

const fn natural(integrated: bool) -> MemoryKind {
    if integrated {
        MemoryKind::Unified
    } else {
        MemoryKind::Device
    }
}

/// One weight on the device.
#[derive(Debug)]
pub(super) enum Weight {
    /// f32 values.
    Vector(u64),
    /// Parts of at most a chunk each, by rows.
    Matrix(Vec<MatrixPart>),
}

/// Rows of a matrix, in tiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct MatrixPart {
    pub(super) first: usize,
    pub(super) tiles: Tiles,
}

impl Weight {
    pub(super) fn vector(&self) -> u64 {
        match self {
            Self::Vector(address) => *address,
            Self::Matrix(_) => unreachable!("a tape names a matrix where a vector belongs"),
        }
    }

    pub(super) fn parts(&self) -> &[MatrixPart] {
        match self {
            Self::Matrix(parts) => parts,
            Self::Vector(_) => unreachable!("a tape names a vector where a matrix belongs"),
        }
    }
}

/// The regions of a weight, each with its rows.
pub(super) type Regions = Vec<(Range<usize>, Region)>;

/// Plans the memory of all weights.
pub(super) fn plan(infos: &[WeightInfo], activation: DType) -> Result<(Plan, Vec<Regions>), Error> {
    let mut plan = Plan::new();
    let planned: Result<_, _> = infos
        .iter()
        .map(|info| regions(&mut plan, info, activation))
        .collect();
    planned.map(|planned| (plan, planned))
}

fn regions(plan: &mut Plan, info: &WeightInfo, activation: DType) -> Result<Regions, Error> {
    if info.rows == 1 {
        return Ok(vec![(0..1, plan.add(4 * info.columns)?)]);
    }
    let storage = storage(info, activation);
    let rows_each = part_rows(info, activation);
    let starts = (0..info.rows).step_by(rows_each);
    let parts = starts.map(|start| start..(start + rows_each).min(info.rows));
    parts
        .map(|rows| {
            Ok((
                rows.clone(),
                plan.add(storage.matrix_bytes(rows.len(), info.columns))?,
            ))
        })
        .collect()
}

/// The rows of a matrix that fit a chunk.
pub(super) fn part_rows(info: &WeightInfo, activation: DType) -> usize {
    let tile_bytes = storage(info, activation).tile_bytes(info.columns);
    (CHUNK_BYTES / tile_bytes * TILE_ROWS).max(TILE_ROWS)
}

/// The storage form of a matrix on the device.
pub(super) const fn storage(info: &WeightInfo, activation: DType) -> Storage {
    Storage::of(info.format, matches!(activation, DType::F16))
}

/// The storage forms of all matrices, without duplicates.
pub(super) fn storages(infos: &[WeightInfo], activation: DType) -> Vec<Storage> {
    let matrices = infos.iter().filter(|info| info.rows > 1);
    let storages: HashSet<_> = matrices.map(|info| storage(info, activation)).collect();
    storages.into_iter().collect()
}

/// Activations, in one arena for each buffer, long enough for every prepared tape.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    pub(super) held: Vec<(Arena, Region, u64)>,
    /// The buffers that preempted prompts and a preempted step continue with, and their saved rows in the same arena.
    pub(super) saved: Vec<(Buffer, Vec<Region>)>,
    /// Normed rows of a prompt, in the activations' type.
    pub(super) normed: Option<(Arena, Region, u64)>,
    /// Sums of a prompt's inputs, over 32 columns each: f32.
    pub(super) sums: Option<(Arena, Region, u64)>,
    /// f32 (rows, intermediate): gates, if their weights have another storage form than those of up; in vision towers,
    /// products whose outputs are clamped.
    pub(super) gates: Option<(Arena, Region, u64)>,
    /// The results of attention before they are merged.
    pub(super) partials: Option<(Arena, Region, u64)>,
}

/// Bytes of each part of `Buffers` for a tape.
#[derive(Debug)]
pub(super) struct Needs {
    pub(super) buffers: Vec<usize>,
    pub(super) normed: usize,
    pub(super) sums: usize,
    pub(super) gates: usize,
    pub(super) partials: usize,
}

impl Needs {
    pub(super) fn of(tape: &Tape) -> Self {
        let bytes = |(index, info): (usize, &BufferInfo)| {
            info.rows * stride(tape, Buffer(index)) * info.dtype.bytes()
        };
        let (mut normed, mut widest, mut partials, mut gates) = (0, 0, 0, 0);
        // The widest rows in f32 that products round, in a step, too.
        let mut rounded = 0;
        let mut tower = TowerNeeds::default();
        for op in &tape.ops {
            match *op {
                Op::GateUp {
                    x, gate, up, out, ..
                } => {
                    normed = normed.max(padded(tape.buffer(x).columns));
                    if tape.weight(gate).format != tape.weight(up).format {
                        gates = gates.max(stride(tape, out));
                    }
                }
                Op::Qkv { x, .. } | Op::Head { x, .. } => {
                    normed = normed.max(padded(tape.buffer(x).columns));
                }
                Op::Product { input, .. } if tape.buffer(input).dtype == DType::F32 => {
                    rounded = rounded.max(padded(tape.buffer(input).columns));
                }
                Op::Project { input, .. } | Op::Product { input, .. } => {
                    widest = widest.max(stride(tape, input));
                }
                Op::Attend { layer, q, .. } => {
                    let (kv, columns) = (tape.kv.heads_of(layer), tape.buffer(q).columns);
                    let group = columns / kv.head_dim / kv.heads;
                    partials = partials.max(match tape.input {
                        Input::Prompt | Input::Patches { .. } => {
                            prompt_attend::partial_bytes(kv, tape.rows * group)
                        }
                        Input::Step => splits::partial_bytes(kv, tape.rows, columns),
                    });
                }
                Op::Embed { .. }
                | Op::RopeStore { .. }
                | Op::AddNormed { .. }
                | Op::Norm { .. }
                | Op::LayerInputs { .. }
                | Op::Gate { .. }
                | Op::Softcap { .. }
                | Op::Images(_)
                | Op::Recurrent(_)
                | Op::Hidden(_)
                | Op::Sample { .. } => {}
                Op::Vision(ref op) => tower.add(tape, op),
            }
        }
        let prompt = tape.input == Input::Prompt;
        normed = if prompt { normed.max(rounded) } else { rounded };
        Self {
            buffers: tape.buffers.iter().enumerate().map(bytes).collect(),
            // The kernels of a step norm their rows themselves.
            normed: (tape.rows * normed * 2).max(tower.rounded),
            // `sums.cuh`
            sums: if prompt || rounded > 0 {
                tape.rows.next_multiple_of(16) * normed.max(widest) / 32 * 4
            } else {
                tower.sums
            },
            gates: (tape.rows * gates * 4).max(tower.products),
            partials,
        }
    }
}

impl Buffers {
    /// Allocates buffers for a tape. Returns whether an address changed.
    pub(super) fn grow(
        &mut self,
        context: &Rc<Context>,
        tape: &Tape,
        stream: &mut Stream,
    ) -> Result<bool, Error> {
        let mut moved = false;
        let needs = Needs::of(tape);
        for (index, &bytes) in needs.buffers.iter().enumerate() {
            if self
                .held
                .get(index)
                .is_none_or(|(_, region, _)| region.bytes() < bytes)
            {
                let copies = copies(tape, Buffer(index));
                let (buffer, saved) = allocate_copies(context, bytes, copies, stream)?;
                if copies > 0 {
                    self.saved.retain(|(buffer, _)| buffer.0 != index);
                    self.saved.push((Buffer(index), saved));
                }
                match self.held.get_mut(index) {
                    Some(held) => *held = buffer,
                    None => self.held.push(buffer),
                }
                moved = true;
            }
        }
        let kept = [
            (&mut self.normed, needs.normed),
            (&mut self.sums, needs.sums),
            (&mut self.gates, needs.gates),
            (&mut self.partials, needs.partials),
        ];
        for (held, bytes) in kept {
            if held
                .as_ref()
                .is_none_or(|(_, region, _)| region.bytes() < bytes)
            {
                *held = Some(allocate(context, bytes, stream)?);
                moved = true;
            }
        }
        Ok(moved)
    }

    pub(super) fn address(&self, buffer: Buffer) -> u64 {
        self.held
            .get(buffer.0)
            .map_or(0, |(_, _, address)| *address)
    }

    pub(super) fn normed(&self) -> u64 {
        self.normed.as_ref().map_or(0, |(_, _, address)| *address)
    }

    pub(super) fn sums(&self) -> u64 {
        self.sums.as_ref().map_or(0, |(_, _, address)| *address)
    }

    pub(super) fn gates(&self) -> u64 {
        self.gates.as_ref().map_or(0, |(_, _, address)| *address)
    }

    pub(super) fn partials(&self) -> u64 {
        self.partials.as_ref().map_or(0, |(_, _, address)| *address)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.held
            .iter()
            .chain(&self.normed)
            .chain(&self.sums)
            .chain(&self.gates)
            .chain(&self.partials)
            .map(|(arena, _, _)| arena.bytes())
            .sum()
    }

    /// Queues saving the buffers that a run continues with in a place, or restoring them from there.
    pub(super) fn copy_carried(
        &mut self,
        tape: &Tape,
        (place, back): (usize, bool),
        stream: &mut Stream,
    ) -> Result<(), Error> {
        for buffer in tape.carried() {
            let saved = self.saved.iter().find(|(of, _)| *of == buffer);
            let saved = saved.and_then(|(_, saved)| saved.get(place));
            let (Some((arena, held, _)), Some(saved)) = (self.held.get_mut(buffer.0), saved) else {
                continue;
            };
            let bytes = 4 * tape.buffer(buffer).columns;
            let rows = RowSpans {
                pitch: bytes,
                bytes,
                count: tape.rows,
            };
            let (from, to) = if back {
                (*saved, *held)
            } else {
                (*held, *saved)
            };
            arena.copy(from, to, rows, stream)?;
        }
        Ok(())
    }

    /// Copies the logits of the last run of a tape.
    pub(super) fn read_logits(
        &self,
        tape: &Tape,
        out: &mut [f32],
        stream: &mut Stream,
    ) -> Result<(), Error> {
        let head = tape.ops.iter().find_map(|op| match op {
            Op::Head { logits, .. } => Some(logits),
            _ => None,
        });
        let Some(logits) = head else {
            return Ok(());
        };
        let Some((arena, region, _)) = self.held.get(logits.0) else {
            return Ok(());
        };
        let mut bytes = vec![0; 4 * out.len()];
        arena.read(*region, &mut bytes, stream)?;
        for (value, bytes) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *value = f32::from_le_bytes(*bytes);
        }
        Ok(())
    }
}

/// Elements from one row of a buffer to the next. The inputs of matrix products are padded to whole units.
pub(super) fn stride(tape: &Tape, buffer: Buffer) -> usize {
    let info = tape.buffer(buffer);
    if info.dtype == DType::F32 {
        info.columns
    } else {
        padded(info.columns)
    }
}

/// The number of copies of a buffer for preempted prompts and a preempted step, which continue with some buffers.
pub(super) fn copies(tape: &Tape, buffer: Buffer) -> usize {
    if tape.carried().contains(&buffer) {
        PLACES
    } else {
        0
    }
}

/// Plans a region and copies of the same length.
pub(super) fn plan_copies(bytes: usize, copies: usize) -> Result<(Plan, Vec<Region>), Error> {
    let mut plan = Plan::new();
    let regions: Result<_, _> = (0..=copies).map(|_| plan.add(bytes)).collect();
    Ok((plan, regions?))
}

/// An arena, its first region, and the address of that.
type Allocated = (Arena, Region, u64);

fn allocate(context: &Rc<Context>, bytes: usize, stream: &mut Stream) -> Result<Allocated, Error> {
    Ok(allocate_copies(context, bytes, 0, stream)?.0)
}

/// Allocates and zeroes memory: padding must be zero, and no kernel writes it.
fn allocate_copies(
    context: &Rc<Context>,
    bytes: usize,
    copies: usize,
    stream: &mut Stream,
) -> Result<(Allocated, Vec<Region>), Error> {
    let (plan, mut regions) = plan_copies(bytes, copies)?;
    let saved = regions.split_off(1);
    let region = regions[0];
    let mut arena = Arena::new(context, MemoryKind::Device, &plan)?;
    arena.set(region, 0, stream)?;
    let address = arena.address(region)?;
    Ok(((arena, region, address), saved))
}

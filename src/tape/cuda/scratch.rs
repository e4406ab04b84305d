//! The cache, and what kernels share besides weights and slots; all allocated once.

use std::rc::Rc;

use super::launch;
use super::state::State;
use crate::device::{Arena, Context, Error, Memory, Plan, Region, Stream};
use crate::tape::KvInfo;

/// K and V of each region and layer, each (head, position, head_dim).
#[derive(Debug)]
pub(super) struct Cache {
    pub(super) arena: Arena,
    layers: usize,
    /// Of region after region: K of its layers, then V.
    pub(super) memory: Vec<Region>,
    addresses: Vec<u64>,
}

/// What kernels share besides slots.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) arena: Arena,
    pub(super) state: Region,
    pub(super) prompt: Region,
    pub(super) addresses: launch::Addresses,
}

impl Cache {
    /// A region for K of each layer, then for V of each.
    pub(super) fn plan(kv: KvInfo) -> Result<(Plan, Vec<Region>), Error> {
        let bytes = kv.bytes_per_position() / 2 / kv.layers * kv.context;
        let mut plan = Plan::new();
        let regions: Result<_, _> = (0..2 * kv.layers * kv.slots)
            .map(|_| plan.add(bytes))
            .collect();
        regions.map(|regions| (plan, regions))
    }

    pub(super) fn new(
        context: &Rc<Context>,
        memory: Memory,
        kv: KvInfo,
        stream: &mut Stream,
    ) -> Result<Self, Error> {
        let (plan, regions) = Self::plan(kv)?;
        let mut arena = Arena::new(context, memory, &plan)?;
        arena.attach(stream)?;
        // Written once, so that memory which is only promised is there before anyone relies on it.
        for region in &regions {
            arena.set(*region, 0, stream)?;
        }
        stream.synchronize()?;
        let addresses = regions
            .iter()
            .map(|region| arena.address(*region))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            arena,
            layers: kv.layers,
            memory: regions,
            addresses,
        })
    }

    /// K and V of a region, by layer.
    pub(super) fn region(&self, region: usize) -> (&[u64], &[u64]) {
        let at = 2 * self.layers * region;
        self.addresses[at..at + 2 * self.layers].split_at(self.layers)
    }
}

impl Scratch {
    /// State, prompt, angles, arrivals, the parts of `choose`.
    pub(super) fn plan(kv: KvInfo, rows: usize) -> Result<(Plan, [Region; 5]), Error> {
        let mut plan = Plan::new();
        let regions = [
            plan.add(State::BYTES)?,
            plan.add(4 * (2 + rows))?,
            plan.add(8 * kv.context * (kv.head_dim / 2))?,
            plan.add(4 * (rows * kv.heads + 1))?,
            plan.add(8 * launch::CHOOSE_BLOCKS as usize)?,
        ];
        Ok((plan, regions))
    }

    pub(super) fn new(
        context: &Rc<Context>,
        rope_frequencies: &[f32],
        kv: KvInfo,
        rows: usize,
        stream: &mut Stream,
    ) -> Result<Self, Error> {
        let (plan, [state, prompt, angles, arrivals, best]) = Self::plan(kv, rows)?;
        let mut arena = Arena::new(context, Memory::Device, &plan)?;
        // (cos, sin), computed as the reference computes them.
        let angle = |position: usize, frequency: &f32| {
            #[allow(clippy::cast_precision_loss)] // as the reference does, in f32
            let (sin, cos) = (position as f32 * frequency).sin_cos();
            [cos, sin]
        };
        let table =
            (0..kv.context).flat_map(|p| rope_frequencies.iter().flat_map(move |f| angle(p, f)));
        arena.write(
            angles,
            &table.flat_map(f32::to_le_bytes).collect::<Vec<u8>>(),
            stream,
        )?;
        arena.set(arrivals, 0, stream)?;
        arena.set(state, 0, stream)?;
        let addresses = launch::Addresses {
            state: arena.address(state)?,
            prompt: arena.address(prompt)?,
            angles: arena.address(angles)?,
            arrivals: arena.address(arrivals)?,
            best: arena.address(best)?,
            ..launch::Addresses::default()
        };
        Ok(Self {
            arena,
            state,
            prompt,
            addresses,
        })
    }
}

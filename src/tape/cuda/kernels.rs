//! The kernels by what they do, and which of a family suits the types and rows at hand.

use crate::device::{
    AttendArgs, ChooseArgs, EmbedArgs, Error, GateUpArgs, Kernel, LinearArgs, Modules, NormArgs,
    Parameters, ProjectArgs, RopeStoreArgs,
};
use crate::tape::DType;

/// Bytes of shared memory that a product of 8 or 64 input rows needs: `Block` of `kernels/matmul.cuh`.
pub(super) const PRODUCT_SHARED: [usize; 2] = [4608, 36864];
/// The widest normed row that a step keeps beside it.
pub(super) const NORMED_BYTES: usize = 64 << 10;
/// Shared memory of attention at its widest.
const ATTEND_SHARED: usize = 40 << 10;

/// All kernels of this build, for one device.
#[derive(Debug)]
pub(super) struct Kernels {
    pub(super) embed: Kernel<EmbedArgs>,
    pub(super) choose: Kernel<ChooseArgs>,
    norm: [Kernel<NormArgs>; 2],
    linear: Family<LinearArgs>,
    project: Family<ProjectArgs>,
    gate_up: Family<GateUpArgs>,
    rope_store: Vec<Kernel<RopeStoreArgs>>,
    attend: Vec<Kernel<AttendArgs>>,
}

/// By activation type, then by 8 or 64 input rows a block.
type Family<A> = [[Kernel<A>; 2]; 2];

const ACTIVATIONS: [&str; 2] = ["f16", "bf16"];

impl Kernels {
    pub(super) fn load(modules: &Modules) -> Result<Self, Error> {
        Ok(Self {
            embed: modules.kernel("embed", 0)?,
            choose: modules.kernel("choose", 0)?,
            norm: [
                modules.kernel("norm_f16", 0)?,
                modules.kernel("norm_bf16", 0)?,
            ],
            linear: family(modules, "linear")?,
            project: family(modules, "project")?,
            gate_up: family(modules, "gate_up")?,
            rope_store: by_cache(modules, "rope_store", 0)?,
            attend: by_cache(modules, "attend", ATTEND_SHARED)?,
        })
    }

    pub(super) fn norm(&self, activation: DType) -> &Kernel<NormArgs> {
        &self.norm[index(activation)]
    }

    pub(super) fn linear(&self, activation: DType, wide: bool) -> &Kernel<LinearArgs> {
        &self.linear[index(activation)][usize::from(wide)]
    }

    pub(super) fn project(&self, activation: DType, wide: bool) -> &Kernel<ProjectArgs> {
        &self.project[index(activation)][usize::from(wide)]
    }

    pub(super) fn gate_up(&self, activation: DType, wide: bool) -> &Kernel<GateUpArgs> {
        &self.gate_up[index(activation)][usize::from(wide)]
    }

    pub(super) fn rope_store(&self, activation: DType, kv: DType) -> &Kernel<RopeStoreArgs> {
        &self.rope_store[index(activation) * 3 + kv as usize]
    }

    pub(super) fn attend(&self, activation: DType, kv: DType) -> &Kernel<AttendArgs> {
        &self.attend[index(activation) * 3 + kv as usize]
    }
}

fn index(activation: DType) -> usize {
    usize::from(activation == DType::BF16)
}

fn family<A: Parameters>(modules: &Modules, name: &str) -> Result<Family<A>, Error> {
    let one = |activation: &str, rows: usize, shared| {
        modules.kernel(&format!("{name}_{activation}_{rows}"), shared)
    };
    let pair = |activation| {
        Ok([
            one(activation, 8, PRODUCT_SHARED[0] + NORMED_BYTES)?,
            one(activation, 64, PRODUCT_SHARED[1])?,
        ])
    };
    Ok([pair(ACTIVATIONS[0])?, pair(ACTIVATIONS[1])?])
}

/// By activation type, then by the cache's in the order of `DType`.
fn by_cache<A: Parameters>(
    modules: &Modules,
    name: &str,
    shared: usize,
) -> Result<Vec<Kernel<A>>, Error> {
    let names = ACTIVATIONS
        .iter()
        .flat_map(|a| DType::ALL.map(|kv| format!("{name}_{a}_{}", kv.name())));
    names.map(|name| modules.kernel(&name, shared)).collect()
}

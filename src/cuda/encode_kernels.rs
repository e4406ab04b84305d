//! The kernels of vision towers: `kernels/vision/`. Their products are those of prompts.

use crate::device::{
    Error, Kernel, LaunchOrder, Modules, VisionAttendArgs, VisionClampArgs, VisionFinishArgs,
    VisionNormArgs, VisionRotateArgs, VisionSquareArgs,
};
use crate::quant::DType;

/// Threads of a block of attention.
pub(super) const ATTEND_THREADS: u32 = 128;
/// Keys in a tile of attention.
const KEYS: usize = 64;

/// The kernels of one type of activations.
#[derive(Debug)]
pub(super) struct EncodeKernels {
    pub(super) norm: Kernel<VisionNormArgs>,
    pub(super) clamp: Kernel<VisionClampArgs>,
    pub(super) finish: Kernel<VisionFinishArgs>,
    pub(super) rotate: Kernel<VisionRotateArgs>,
    pub(super) merge: Kernel<VisionSquareArgs>,
    pub(super) pool: Kernel<VisionSquareArgs>,
    attend: [TowerAttend; 8],
}

/// A kernel for heads of up to a number of columns.
#[derive(Debug)]
pub(super) struct TowerAttend {
    columns: usize,
    pub(super) kernel: Kernel<VisionAttendArgs>,
    /// Query rows of a block.
    pub(super) rows: usize,
    /// Bytes of shared memory.
    pub(super) shared: usize,
}

impl EncodeKernels {
    pub(super) fn load(modules: &Modules, activation: DType) -> Result<Self, Error> {
        let name = activation.name();
        let named = |of: &str| format!("vision_{of}_{name}");
        let order = LaunchOrder::Between;
        let attend = |columns: usize| {
            let rows = if columns > 96 { 64 } else { 128 };
            // The queries, then two tiles of keys and two of values, with rows shifted by a bank.
            let shared = (rows + 4 * KEYS) * (2 * columns + 16);
            let name = format!("vision_attend_{name}_{columns}");
            Ok::<_, Error>(TowerAttend {
                columns,
                kernel: modules.kernel(&name, shared, order)?,
                rows,
                shared,
            })
        };
        Ok(Self {
            norm: modules.kernel(&named("norm"), 0, order)?,
            clamp: modules.kernel(&named("clamp"), 0, order)?,
            finish: modules.kernel(&named("finish"), 0, order)?,
            rotate: modules.kernel(&named("rotate"), 0, order)?,
            merge: modules.kernel(&named("merge"), 0, order)?,
            pool: modules.kernel(&named("pool"), 0, order)?,
            attend: [
                attend(16)?,
                attend(32)?,
                attend(48)?,
                attend(64)?,
                attend(80)?,
                attend(96)?,
                attend(112)?,
                attend(128)?,
            ],
        })
    }

    /// Selects the attention for a size of heads; `None` if they are too wide.
    pub(super) fn attend(&self, head_dim: usize) -> Option<&TowerAttend> {
        self.attend.iter().find(|of| head_dim <= of.columns)
    }
}

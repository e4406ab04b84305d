//! The kernels of recurrent layers.

use crate::device::{
    CommitArgs, ConvolveArgs, CopyStateArgs, Error, GatedNormArgs, Kernel, LaunchOrder, Modules,
    UpdateArgs,
};
use crate::quant::DType;
use crate::tape::{StateInfo, UpdateRule};

/// The kernels of recurrent layers, for the heads of one model.
#[derive(Debug)]
pub(super) struct RecurrentKernels {
    pub(super) convolve: Kernel<ConvolveArgs>,
    pub(super) shift: Kernel<ConvolveArgs>,
    pub(super) short_conv: Kernel<ConvolveArgs>,
    pub(super) gated_norm: Kernel<GatedNormArgs>,
    /// `None` if the convolution is all that a layer remembers.
    pub(super) updates: Option<UpdateKernels>,
    pub(super) store: Kernel<CopyStateArgs>,
    pub(super) load: Kernel<CopyStateArgs>,
}

#[derive(Debug)]
pub(super) struct UpdateKernels {
    pub(super) step: Kernel<UpdateArgs>,
    pub(super) prompt: Kernel<UpdateArgs>,
    pub(super) commit: Kernel<CommitArgs>,
}

impl RecurrentKernels {
    pub(super) fn load(
        modules: &Modules,
        activation: DType,
        info: StateInfo,
    ) -> Result<Self, Error> {
        let name = activation.name();
        let order = LaunchOrder::Between;
        let updates = info.heads.map(|heads| {
            let rule = match heads.rule {
                UpdateRule::Delta => "delta",
                UpdateRule::Additive => "mamba",
            };
            Ok::<_, Error>(UpdateKernels {
                step: modules.kernel(&format!("{rule}_step"), 0, order)?,
                prompt: modules.kernel(&format!("{rule}_prompt"), 0, order)?,
                commit: modules.kernel(&format!("{rule}_commit"), 0, order)?,
            })
        });
        Ok(Self {
            convolve: modules.kernel("convolve", 0, order)?,
            shift: modules.kernel("shift", 0, order)?,
            short_conv: modules.kernel(&format!("short_conv_{name}"), 0, order)?,
            gated_norm: modules.kernel(&format!("gated_norm_{name}"), 0, order)?,
            updates: updates.transpose()?,
            store: modules.kernel("store_state", 0, order)?,
            load: modules.kernel("load_state", 0, order)?,
        })
    }
}

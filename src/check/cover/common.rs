//! The types, sizes and cache that the cases share.

use crate::kv::{KvType, PAGE};
use crate::quant::DType;
use crate::tape::{KvInfo, STEP_ROWS};

pub(super) const ACTIVATIONS: [DType; 2] = [DType::F16, DType::BF16];
/// Pages of a chunk of memory. Most conversations use several chunks.
pub(super) const CHUNK: usize = 20;
/// Qwen's vocabulary.
pub(super) const VOCABULARY: usize = 151_936;

/// A cache that no case of a world reads.
pub(super) fn unused_cache() -> KvInfo {
    KvInfo {
        kinds: KvInfo::alike(1, 1, 16),
        context: 512,
        slots: STEP_ROWS,
        pages: STEP_ROWS * 512 / PAGE,
        chunk: CHUNK,
        types: KvType::F16.into(),
        run: 512,
        state_bytes: 0,
    }
}

//! How many rows of a prompt run at once if the settings leave it open.
//!
//! More rows use a GPU better, but need more memory, and delay other requests longer. The results do not depend on it.

use super::settings::Settings;
use crate::model::forward::Forward;
use crate::tape::CHUNK;

/// The rows on a CPU. More rows would exceed its caches.
pub(crate) const CPU: usize = 64;

/// Returns the rows for a GPU, by the bytes of its memory.
#[cfg(feature = "cuda")]
pub(crate) fn of_gpu(bytes: u64, integrated: bool) -> usize {
    const GIB: u64 = 1 << 30;
    match bytes {
        // An integrated GPU is slower, so its chunks are smaller.
        bytes if bytes >= 32 * GIB && !integrated => 2048,
        bytes if bytes >= 12 * GIB => 512,
        _ => 256,
    }
}

/// Returns the settings with `chunk` if they leave it open. A model with recurrent layers has at least the rows of a chunk of
/// its prompts, which is not divided. Nor is an image whose rows see each other.
pub(crate) fn settled(settings: &Settings, chunk: usize, forward: &Forward) -> Settings {
    let mut settings = settings.clone();
    if settings.prefill_chunk == 0 {
        settings.prefill_chunk = chunk;
    }
    if forward.state.is_some() {
        settings.prefill_chunk = settings.prefill_chunk.max(CHUNK);
    }
    settings.prefill_chunk = settings.prefill_chunk.max(settings.tower.rows);
    settings
}

//! How many rows of a prompt run at once where the settings leave it open.
//!
//! More rows use a GPU better and take more memory; between two chunks a cancelled request ends and another may have
//! its turn. Bits do not depend on it.

use super::settings::Settings;

/// On a CPU more rows gain nothing: they no longer stay in its cache.
pub(crate) const CPU: usize = 64;

/// A GPU takes so many rows, by the bytes of its memory.
#[cfg(feature = "cuda")]
pub(crate) fn of_gpu(bytes: u64, integrated: bool) -> usize {
    const GIB: u64 = 1 << 30;
    match bytes {
        // What shares its memory is a board, whose chunks take longer.
        bytes if bytes >= 32 * GIB && !integrated => 2048,
        bytes if bytes >= 12 * GIB => 512,
        _ => 256,
    }
}

/// The settings with `chunk` where they leave it open.
pub(crate) fn settled(settings: &Settings, chunk: usize) -> Settings {
    let mut settings = settings.clone();
    if settings.prefill_chunk == 0 {
        settings.prefill_chunk = chunk;
    }
    settings
}

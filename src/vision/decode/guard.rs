//! A fence around the decoders of libraries: a panic in one is an error of the image, and not of this program.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether this thread runs the decoder of a library. A panic hook leaves such a panic to the caller of the decoder,
/// which refuses the image.
#[must_use]
pub fn is_decoding() -> bool {
    DECODING.get()
}

/// Runs the decoder of a library. Returns `None` if it panics; everything that it has changed is to be dropped then.
pub(super) fn run<T>(decoder: impl FnOnce() -> T) -> Option<T> {
    /// Ends the mark during an unwinding too.
    struct Mark;
    impl Drop for Mark {
        fn drop(&mut self) {
            DECODING.set(false);
        }
    }
    DECODING.set(true);
    let mark = Mark;
    let result = catch_unwind(AssertUnwindSafe(decoder));
    drop(mark);
    result.ok()
}

//! Prefetching: memory is requested before it is read, because scattered reads would each wait for it.

/// Bytes of a cache line, on all supported machines.
const LINE: usize = 64;

/// Requests bytes that will be read. It does not wait and changes nothing.
#[inline(always)]
pub(super) fn prefetch(bytes: &[u8]) {
    for line in bytes.chunks(LINE) {
        branches::prefetch_read_data::<_, 0>(line.as_ptr());
    }
}

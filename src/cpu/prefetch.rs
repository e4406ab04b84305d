//! Memory that is asked for before it is read: what begins somewhere else again and again waits for each beginning otherwise.

/// Bytes that memory brings at a time, on all machines that this is for.
const LINE: usize = 64;

/// Has memory bring bytes that will be read. It waits for nothing and changes nothing.
#[inline(always)]
pub(super) fn prefetch(bytes: &[u8]) {
    for line in bytes.chunks(LINE) {
        branches::prefetch_read_data::<_, 0>(line.as_ptr());
    }
}

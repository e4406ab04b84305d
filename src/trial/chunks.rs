//! Takes the device's memory in chunks, until only a reserve is left, and returns it.

use std::rc::Rc;

use super::error::TrialError;
use crate::device::{Arena, CHUNK_BYTES, Context, Error, MemoryKind, Plan, Stream};

/// The bytes by which free memory may differ from what was taken: other programs run, and the driver keeps tables.
const SLACK: u64 = 256 << 20;

/// What was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    pub chunks: u64,
    pub bytes: u64,
    /// The bytes by which free memory fell.
    pub fell: u64,
    /// The bytes that were still missing after the return.
    pub missing: u64,
    /// Whether the driver refused a chunk before only the reserve was left.
    pub refused: bool,
}

/// Takes chunks and writes to each of them on the device, while `free` returns more than `reserve` and a chunk.
///
/// # Errors
/// If the driver fails, or free memory does not follow what was taken and returned.
pub fn take(
    context: &Rc<Context>,
    memory: MemoryKind,
    reserve: u64,
    free: impl Fn() -> Result<u64, TrialError>,
) -> Result<Taken, TrialError> {
    let chunk = CHUNK_BYTES as u64;
    let mut stream = Stream::new(context)?;
    let before = free()?;
    let mut arenas = Vec::new();
    let mut refused = false;
    while free()? > reserve.saturating_add(chunk) {
        match one(context, memory, &mut stream) {
            Ok(arena) => arenas.push(arena),
            Err(Error::OutOfMemory { .. } | Error::NoMemory { .. }) => {
                refused = true;
                break;
            }
            Err(error) => return Err(error.into()),
        }
    }
    let fell = before.saturating_sub(free()?);
    let chunks = arenas.len() as u64;
    drop(arenas);
    stream.synchronize()?;
    let taken = Taken {
        chunks,
        bytes: chunks * chunk,
        fell,
        missing: before.saturating_sub(free()?),
        refused,
    };
    if taken.fell.abs_diff(taken.bytes) > SLACK + taken.bytes / 20 {
        let what = format!(
            "free memory fell by {} MiB for {} MiB",
            taken.fell >> 20,
            taken.bytes >> 20
        );
        return Err(TrialError::Wrong(what));
    }
    if taken.missing > SLACK {
        let what = format!("{} MiB did not return", taken.missing >> 20);
        return Err(TrialError::Wrong(what));
    }
    Ok(taken)
}

fn one(context: &Rc<Context>, memory: MemoryKind, stream: &mut Stream) -> Result<Arena, Error> {
    let mut plan = Plan::new();
    let region = plan.add(CHUNK_BYTES)?;
    let mut arena = Arena::new(context, memory, &plan)?;
    arena.attach(stream)?;
    arena.set(region, 0x5a, stream)?;
    stream.synchronize()?;
    Ok(arena)
}

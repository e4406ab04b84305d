//! What a model takes of a GPU's memory, from the plans that it is allocated by.

use super::memory::{self, Needs};
use super::pages::Pages;
use super::scratch::{Scratch, Tables};
use crate::device::Error;
use crate::tape::{Buffer, FLIGHT_BYTES, MemoryEstimate, Tape};

/// What `Cuda` takes to run these tapes, prompts of at most `rows` rows. `integrated` counts what the CPU's side
/// takes meanwhile, for there it is the same memory.
///
/// # Errors
/// If a part of the cache or of the activations would be larger than any allocation may be.
pub fn memory_estimate(
    tapes: &[&Tape],
    rows: usize,
    integrated: bool,
) -> Result<MemoryEstimate, Error> {
    let Some(tape) = tapes.first() else {
        return Ok(MemoryEstimate::default());
    };
    let weights = memory::plan(&tape.weights, tape.activation)?.0.bytes();
    let kv = Pages::plan(tape.kv)?.0.bytes();
    let (scratch, regions) =
        Scratch::plan(tape.kv, Tables::of_tape(tape), (tape.vocabulary(), rows))?;
    let (mut activations, mut passing) = (scratch.bytes() + buffers(tapes)?, 0);
    if integrated {
        // The table of angles is made before it is copied, and the buffers come after it.
        activations = activations.max(scratch.bytes() + regions.angles.bytes() as u64);
        // Weights pass through buffers as they are stored and through others as they will lie, before the cache comes.
        passing = 2 * FLIGHT_BYTES as u64;
    }
    Ok(MemoryEstimate {
        weights,
        kv,
        activations: activations.max(passing.saturating_sub(kv)),
    })
}

/// Each is an allocation of its own, long enough for every tape.
fn buffers(tapes: &[&Tape]) -> Result<u64, Error> {
    let mut longest: Vec<(usize, usize)> = Vec::new();
    for tape in tapes {
        let Needs {
            buffers,
            normed,
            sums,
            gates,
            partials,
        } = Needs::of(tape);
        let buffers = buffers.into_iter().enumerate();
        let buffers = buffers.map(|(index, bytes)| (bytes, memory::copies(tape, Buffer(index))));
        for (index, (bytes, copies)) in [normed, sums, gates, partials]
            .into_iter()
            .map(|bytes| (bytes, 0))
            .chain(buffers)
            .enumerate()
        {
            if index == longest.len() {
                longest.push((0, copies));
            }
            longest[index].0 = longest[index].0.max(bytes);
        }
    }
    longest.into_iter().try_fold(0, |sum, (bytes, copies)| {
        Ok(sum + memory::plan_copies(bytes, copies)?.0.bytes())
    })
}

//! The memory of a GPU that a model needs, from the plans of its allocations.

use super::memory::{self, Needs};
use super::pages::Pages;
use super::scratch::{Scratch, Tables};
use super::states::States;
use crate::device::Error;
use crate::executor::{FLIGHT_BYTES, MemoryEstimate};
use crate::tape::{Buffer, Tape};

/// The memory that `Cuda` needs to run these tapes, with prompts of at most `rows` rows. `integrated` includes the
/// CPU's buffers for loading, which use the same memory there.
///
/// # Errors
/// If a part of the cache or of the activations exceeds the largest allocation.
pub fn memory_estimate(
    tapes: &[&Tape],
    rows: usize,
    integrated: bool,
) -> Result<MemoryEstimate, Error> {
    let Some(tape) = tapes.first() else {
        return Ok(MemoryEstimate::default());
    };
    let weights = memory::plan(&tape.weights, tape.activation)?.0.bytes();
    let states = tape.state.map(States::plan).transpose()?;
    let states = states.map_or(0, |(plan, _)| plan.bytes());
    let kv = Pages::plan(tape.kv)?.0.bytes();
    let (scratch, regions) =
        Scratch::plan(tape.kv, Tables::of_tape(tape), (tape.vocabulary(), rows))?;
    let (mut activations, mut passing) = (scratch.bytes() + buffers(tapes)?, 0);
    if integrated {
        // The table of angles exists twice until it is copied, and the buffers are allocated after that.
        activations = activations.max(scratch.bytes() + regions.angles.bytes() as u64);
        // Weights pass through buffers in stored form and in device form, before the cache is allocated.
        passing = 2 * FLIGHT_BYTES as u64;
    }
    Ok(MemoryEstimate {
        weights,
        kv,
        states,
        activations: activations.max(passing.saturating_sub(kv + states)),
    })
}

/// Each buffer is an allocation, long enough for every tape.
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

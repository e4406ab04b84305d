//! Tries memory: chunks are filled, changed by a kernel, and read back by copies and by the CPU in place.
//!
//! `ganglionctl verify` and `tests/gpu/` run it. A running device needs none of it.

#![allow(clippy::cast_possible_truncation)] // offsets are below 2^32

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::abi::SmokeArgs;
use super::arena::Arena;
use super::context::Context;
use super::error::Error;
use super::image::Modules;
use super::kernel::{Geometry, LaunchOrder};
use super::plan::{MemoryKind, Plan, Region};
use super::staging::Staging;
use super::stream::Stream;

/// Why memory failed its trial.
#[derive(Debug, thiserror::Error)]
pub enum MemoryFault {
    #[error(transparent)]
    Device(#[from] Error),
    /// The memory does not hold what was written, or the CPU reached what it may not reach.
    #[error("{0}")]
    Wrong(String),
}

/// What was tried.
#[derive(Clone, Copy, Debug)]
pub struct TriedMemory {
    pub bytes: u64,
    pub filled_in: Duration,
}

/// Bytes of the third region, which has a chunk with others.
const SMALL: usize = 1000;
const PIECE: usize = 12 << 10;

/// Tries two regions of `bytes` each and a small one. The bytes are a multiple of four.
pub fn try_memory(
    context: &Rc<Context>,
    memory: MemoryKind,
    bytes: usize,
) -> Result<TriedMemory, MemoryFault> {
    let modules = Modules::load(context)?;
    let scale = modules.kernel::<SmokeArgs>("smoke_scale", 0, LaunchOrder::Prompt)?;
    let wait = modules.kernel::<SmokeArgs>("smoke_wait", 0, LaunchOrder::Prompt)?;
    let mut stream = Stream::new(context)?;
    let mut plan = Plan::new();
    let large = plan.add(bytes)?;
    let second = plan.add(bytes)?;
    let small = plan.add(SMALL)?;
    let mut arena = Arena::new(context, memory, &plan)?;

    let start = Instant::now();
    fill(&mut arena, &[large, second, small], &mut stream)?;
    let filled_in = start.elapsed();
    arena.attach(&mut stream)?;

    let scale_region = |stream: &mut Stream, address, region: Region| {
        let args = SmokeArgs {
            data: address,
            count: (region.bytes() / 4) as u32,
            factor: 3,
            ..SmokeArgs::default()
        };
        // SAFETY: the region holds `count` words and lives until the stream is synchronized below.
        unsafe { scale.launch(stream, (Geometry::new(264, 256), false), &args) }
    };
    for region in [large, second, small] {
        scale_region(&mut stream, arena.address(region)?, region)?;
    }
    let mut copy = vec![0; second.bytes()];
    arena.read(second, &mut copy, &mut stream)?;
    holds("a copy", &copy, |at| at.wrapping_mul(16))?;

    let pause = SmokeArgs {
        count: 50_000,
        ..SmokeArgs::default()
    };
    // SAFETY: it touches no memory.
    unsafe { wait.launch(&mut stream, (Geometry::new(1, 1), false), &pause) }?;
    if context.emulates_tegra() && stream.idle().err() != Some(Error::Busy) {
        return wrong("the CPU may use the memory while a kernel runs");
    }
    stream.synchronize()?;
    let idle = stream.idle()?;
    match (memory, arena.host(small, &idle)) {
        (MemoryKind::Device, Err(Error::NotReachable(_))) => {}
        (MemoryKind::Unified, Ok(host)) => {
            holds("memory in place", host, |at| at.wrapping_mul(16))?;
            host.fill(0);
        }
        (MemoryKind::Device, Ok(_)) => return wrong("the CPU reached the device's own memory"),
        (_, Err(error)) => return Err(error.into()),
    }
    if memory == MemoryKind::Unified {
        let mut other = Stream::new(context)?;
        let elsewhere = arena.host(small, &other.idle()?).map(|_| ());
        if !matches!(elsewhere, Err(Error::NotReachable(_))) {
            return wrong("another stream reached attached memory");
        }
        // The GPU reads the CPU's writes.
        scale_region(&mut stream, arena.address(small)?, small)?;
        let mut copy = [0; SMALL];
        arena.read(small, &mut copy, &mut stream)?;
        holds("memory that the CPU wrote", &copy, |at| at)?;
    }
    arena.set(small, 0x7f, &mut stream)?;
    arena.write(small, &[1; SMALL / 2], &mut stream)?;
    let mut copy = [0; SMALL];
    arena.read(small, &mut copy, &mut stream)?;
    if (copy[SMALL / 2 - 1], copy[SMALL / 2]) != (1, 0x7f) {
        return wrong("a written part has other bytes");
    }
    Ok(TriedMemory {
        bytes: arena.bytes(),
        filled_in,
    })
}

/// Copies words as weights are copied: in place, or through pinned memory.
fn fill(arena: &mut Arena, regions: &[Region], stream: &mut Stream) -> Result<(), MemoryFault> {
    let count_up = |offset: usize, piece: &mut [u8]| {
        for (word, at) in piece.chunks_exact_mut(4).zip(offset as u32 / 4..) {
            word.copy_from_slice(&at.wrapping_mul(5).to_le_bytes());
        }
    };
    match arena.memory() {
        MemoryKind::Unified => {
            let idle = stream.idle()?;
            let hosts = arena.hosts(regions, &idle)?;
            hosts.into_iter().for_each(|host| count_up(0, host));
            // Otherwise they might overlap.
            let backwards: Vec<Region> = regions.iter().rev().copied().collect();
            if arena.hosts(&backwards, &idle).is_ok() {
                return wrong("regions in another order could overlap");
            }
        }
        MemoryKind::Device => {
            let mut staging = Staging::new(stream.context(), PIECE, 4)?;
            for &region in regions {
                let mut parts = staging.parts();
                let offsets = (0..region.bytes()).step_by(PIECE);
                for (number, offset) in offsets.enumerate() {
                    let part = &mut *parts[number % 4];
                    let part = &mut part[..(region.bytes() - offset).min(PIECE)];
                    count_up(offset, part);
                    arena.write_at(region, offset, part, stream)?;
                }
            }
        }
    }
    Ok(())
}

/// Checks each word of `bytes`.
fn holds(what: &str, bytes: &[u8], expected: impl Fn(u32) -> u32) -> Result<(), MemoryFault> {
    let words = bytes.as_chunks::<4>().0.iter().zip(0_u32..);
    let mut wrong = words.filter(|(word, at)| u32::from_le_bytes(**word) != expected(*at));
    match wrong.next() {
        None => Ok(()),
        Some((word, at)) => Err(MemoryFault::Wrong(format!(
            "{what} has {} at word {at}, not {}",
            u32::from_le_bytes(*word),
            expected(at)
        ))),
    }
}

fn wrong<T>(what: &str) -> Result<T, MemoryFault> {
    Err(MemoryFault::Wrong(what.to_owned()))
}

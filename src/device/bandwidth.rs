//! Measures the memory bandwidth of a device.

use std::rc::Rc;

use cudarc::driver::sys;

use super::Result;
use super::arena::Arena;
use super::context::Context;
use super::driver::check;
use super::event::Event;
use super::plan::{MemoryKind, Plan};
use super::stream::Stream;

/// Far more than any cache holds.
const BYTES: usize = 256 << 20;
/// Enough copies that the time of a launch is negligible.
const COPIES: u32 = 8;
const PASSES: usize = 5;

/// Bytes per second, read and written together: the best of several copies within the device's own memory.
pub fn copy_bandwidth(context: &Rc<Context>) -> Result<f64> {
    let mut plan = Plan::new();
    let (from, to) = (plan.add(BYTES)?, plan.add(BYTES)?);
    let arena = Arena::new(context, MemoryKind::Device, &plan)?;
    let (from, to) = (arena.address(from)?, arena.address(to)?);
    let mut stream = Stream::new(context)?;
    let (mut begin, mut end) = (Event::new(context)?, Event::new(context)?);
    let mut best = f64::INFINITY;
    for _ in 0..PASSES {
        begin.record(&mut stream)?;
        for _ in 0..COPIES {
            // SAFETY: the regions do not overlap and have `BYTES` each. Freeing the arena waits for the copies.
            let result = unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, BYTES, stream.handle()) };
            check("cuMemcpyDtoDAsync", result)?;
        }
        end.record(&mut stream)?;
        end.synchronize()?;
        best = best.min(f64::from(end.milliseconds_since(&begin)?) / 1e3);
    }
    #[allow(clippy::cast_precision_loss)] // 2^28 is exact
    Ok(2.0 * f64::from(COPIES) * BYTES as f64 / best)
}

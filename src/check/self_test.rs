//! `gangliond --self-test`: compares each operation on this machine's device with the CPU on one thread.
//!
//! It uses random inputs, so it needs no model, configuration or bus. It does not measure speed, and does not judge a
//! model's answers.

use std::io::{self, Write};
use std::num::NonZeroUsize;

use super::cover::{images, towers, worlds};
use super::report::Report;
use super::world::World;
#[cfg(feature = "cuda")]
use crate::cuda::{Device, Error};
use crate::executor::Probe;

/// Runs one of every `every` cases, writes a table for each device to `out`, and returns whether all cases passed.
pub fn run(every: NonZeroUsize, out: &mut impl Write) -> io::Result<bool> {
    let all_threads = |world: &World| Ok(Box::new(world.cpu(0)?) as Box<dyn Probe>);
    let all = worlds().chain(towers()).chain(images());
    let cpu = held(every, out, "CPU, all its threads", all, all_threads)?;
    Ok(gpu(every, out)? && cpu)
}

#[cfg(feature = "cuda")]
fn gpu(every: NonZeroUsize, out: &mut impl Write) -> io::Result<bool> {
    match Device::open(false) {
        Ok(_) => {}
        Err(error @ (Error::NoDriver | Error::NoDevice | Error::NoKernels)) => {
            writeln!(out, "GPU: none ({error})")?;
            return Ok(true);
        }
        // A device that cannot be used is a failure.
        Err(error) => {
            writeln!(out, "GPU:\nFAILED {error}")?;
            return Ok(false);
        }
    }
    let all = worlds().chain(towers()).chain(images());
    held(every, out, "GPU", all, |world| {
        Ok(Box::new(world.cuda(Device::open(false)?)?))
    })
}

#[cfg(not(feature = "cuda"))]
fn gpu(_: NonZeroUsize, out: &mut impl Write) -> io::Result<bool> {
    writeln!(out, "GPU: not tested, because this was built without CUDA")?;
    Ok(true)
}

fn held(
    every: NonZeroUsize,
    out: &mut impl Write,
    name: &str,
    mut worlds: impl Iterator<Item = World>,
    subject: impl Fn(&World) -> Result<Box<dyn Probe>, Box<dyn std::error::Error>>,
) -> io::Result<bool> {
    let mut report = Report::default();
    let mut number = 0;
    let compared = worlds.try_for_each(|mut world| {
        world.cases.retain(|_| {
            number += 1;
            number % every == 0
        });
        world.diff(&mut world.cpu(1)?, &mut *subject(&world)?, &mut report)?;
        Ok::<_, Box<dyn std::error::Error>>(())
    });
    writeln!(out, "{name}:\n{report}")?;
    if let Err(error) = &compared {
        writeln!(out, "FAILED {error}")?;
    }
    Ok(compared.is_ok() && report.failures().is_empty() && report.cases() > 0)
}

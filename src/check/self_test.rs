//! `gangliond --self-test`: each operation on what this machine computes with, held against the CPU on one thread.
//!
//! It takes random inputs, so it needs no model, no configuration and no bus. Of speed it says nothing, nor whether a
//! model's answers make sense.

use std::io::{self, Write};
use std::num::NonZeroUsize;

use crate::check::{Report, World, worlds};
#[cfg(feature = "cuda")]
use crate::cuda::{Device, Error};
use crate::executor::Inspect;

/// Runs one of so many cases, writes a table for each of them to `out`, and tells whether all of it is right.
pub fn run(every: NonZeroUsize, out: &mut impl Write) -> io::Result<bool> {
    let all_threads = |world: &World| Ok(Box::new(world.cpu(0)?) as Box<dyn Inspect>);
    let cpu = held(every, out, "CPU, all its threads", all_threads)?;
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
        // One that is there and cannot be used passes nothing.
        Err(error) => {
            writeln!(out, "GPU:\nFAILED {error}")?;
            return Ok(false);
        }
    }
    held(every, out, "GPU", |world| {
        Ok(Box::new(world.cuda(Device::open(false)?)?))
    })
}

#[cfg(not(feature = "cuda"))]
fn gpu(_: NonZeroUsize, out: &mut impl Write) -> io::Result<bool> {
    writeln!(out, "GPU: not looked for, as this was built without CUDA")?;
    Ok(true)
}

fn held(
    every: NonZeroUsize,
    out: &mut impl Write,
    name: &str,
    subject: impl Fn(&World) -> Result<Box<dyn Inspect>, Box<dyn std::error::Error>>,
) -> io::Result<bool> {
    let mut report = Report::default();
    let mut number = 0;
    let compared = worlds().try_for_each(|mut world| {
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

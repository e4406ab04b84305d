//! `gangliond --self-test`: compares each operation on this machine's device with the CPU on one thread.
//!
//! It uses random inputs, so it needs no model, configuration or bus. It does not measure speed, and does not judge a
//! model's answers.

use std::fmt;
use std::io::{self, Write};
use std::num::NonZeroUsize;

use super::cover::{images, towers, worlds};
use super::report::Report;
use super::world::World;
#[cfg(feature = "cuda")]
use crate::cuda::{Device, Error};
use crate::executor::Probe;

/// The comparison of a device.
#[derive(Debug)]
pub enum SelfTest {
    Ran {
        report: Report,
        /// The reason why the comparison ended early.
        error: Option<String>,
    },
    /// There is no device to compare, for this reason.
    NoDevice(String),
}

impl SelfTest {
    /// Whether all cases passed, or there is no device.
    #[must_use]
    pub fn passed(&self) -> bool {
        match self {
            Self::Ran { report, error } => {
                error.is_none() && report.failures().is_empty() && report.cases() > 0
            }
            Self::NoDevice(_) => true,
        }
    }
}

impl fmt::Display for SelfTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ran { report, error } => {
                writeln!(f, "\n{report}")?;
                error.iter().try_for_each(|why| writeln!(f, "FAILED {why}"))
            }
            Self::NoDevice(why) => writeln!(f, " {why}"),
        }
    }
}

/// Runs one of every `every` cases, writes a table for each device to `out`, and returns whether all cases passed.
pub fn run(every: NonZeroUsize, out: &mut impl Write) -> io::Result<bool> {
    let cpu = cpu(every);
    write!(out, "CPU, all its threads:{cpu}")?;
    let gpu = gpu(every, None);
    write!(out, "GPU:{gpu}")?;
    Ok(cpu.passed() && gpu.passed())
}

/// Compares the CPU on all its threads.
#[must_use]
pub fn cpu(every: NonZeroUsize) -> SelfTest {
    compare(every, |world| Ok(Box::new(world.cpu(0)?)))
}

/// Compares the GPU, or a partition of it with that many multiprocessors. A device that cannot be used is a failure.
#[cfg(feature = "cuda")]
#[must_use]
pub fn gpu(every: NonZeroUsize, multiprocessors: Option<u32>) -> SelfTest {
    let open = || Device::open_part(false, multiprocessors);
    match open() {
        Ok(_) => compare(every, |world| Ok(Box::new(world.cuda(open()?)?))),
        Err(error @ (Error::NoDriver | Error::NoDevice | Error::NoKernels)) => {
            SelfTest::NoDevice(format!("none ({error})"))
        }
        Err(error) => SelfTest::Ran {
            report: Report::default(),
            error: Some(error.to_string()),
        },
    }
}

#[cfg(not(feature = "cuda"))]
#[must_use]
pub fn gpu(_: NonZeroUsize, _: Option<u32>) -> SelfTest {
    SelfTest::NoDevice("not tested, because this was built without CUDA".to_owned())
}

fn compare(
    every: NonZeroUsize,
    subject: impl Fn(&World) -> Result<Box<dyn Probe>, Box<dyn std::error::Error>>,
) -> SelfTest {
    let mut report = Report::default();
    let mut number = 0;
    let mut all = worlds().chain(towers()).chain(images());
    let compared = all.try_for_each(|mut world| {
        world.cases.retain(|_| {
            number += 1;
            number % every == 0
        });
        world.diff(&mut world.cpu(1)?, &mut *subject(&world)?, &mut report)?;
        Ok::<_, Box<dyn std::error::Error>>(())
    });
    SelfTest::Ran {
        report,
        error: compared.err().map(|error| error.to_string()),
    }
}

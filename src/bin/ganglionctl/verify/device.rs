//! The part that opens the GPU: its kernels, managed memory, and chunks until memory ends.

use ganglion::load::Target;

use super::checks::{CHUNKS, IMAGE, MANAGED, SANDBOX};
use super::found::Results;
use crate::doctor::Machine;

/// Returns a function that reads the free bytes of the memory that a model would take.
pub(super) fn free_memory(target: Target) -> impl Fn() -> Option<u64> {
    #[cfg(feature = "cuda")]
    let context = match target {
        Target::Discrete(_) => ganglion::device::Context::open(false).ok(),
        Target::Cpu | Target::Integrated => None,
    };
    #[cfg(not(feature = "cuda"))]
    let _ = target;
    move || {
        #[cfg(feature = "cuda")]
        if let Some(context) = &context {
            return context.free_memory().ok();
        }
        available()
    }
}

fn available() -> Option<u64> {
    Machine::new(None).meminfo("MemAvailable:")
}

#[cfg(not(feature = "cuda"))]
pub(super) fn check(_: Option<u32>, results: &mut Results) {
    for check in [SANDBOX, IMAGE, MANAGED, CHUNKS] {
        results.not_run(check, "this build has no CUDA backend");
    }
}

#[cfg(feature = "cuda")]
pub(super) fn check(sms: Option<u32>, results: &mut Results) {
    use ganglion::cuda::{Device, Error};

    // If memory lacks, this process ends, and no other one.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let device = match Device::open_part(false, sms) {
        Ok(device) => device,
        Err(error) => {
            let is_absent = matches!(error, Error::NoDriver | Error::NoDevice | Error::NoKernels);
            if is_absent && Machine::new(None).nodes().is_empty() {
                results.not_run(SANDBOX, format!("no GPU: {error}"));
            } else {
                results.fail(SANDBOX, &error);
            }
            for check in [IMAGE, MANAGED, CHUNKS] {
                results.not_run(check, format!("no GPU: {error}"));
            }
            return;
        }
    };
    let of = device.properties().clone();
    let (major, minor) = of.capability;
    let kernels = device.kernels();
    let memory = if of.integrated {
        "shares the CPU's memory"
    } else {
        "has memory of its own"
    };
    let gpu = format!(
        "{}, compute capability {major}.{minor}, {} of {} multiprocessors, {memory}",
        of.name, of.multiprocessors, of.all_multiprocessors
    );
    results.fact("gpu", &gpu);
    let driver = (of.driver / 1000, of.driver % 1000 / 10);
    results.fact("cuda", format!("{}.{}", driver.0, driver.1));
    results.figure("multiprocessors", f64::from(of.multiprocessors));
    results.pass(SANDBOX, gpu);
    let kernels = kernels.to_string();
    if of.capability == (8, 7) {
        results.judge(
            IMAGE,
            kernels.contains("sm_87"),
            format!("the {kernels} runs"),
        );
    } else {
        let why = format!("the compute capability is {major}.{minor}, and the {kernels} runs");
        results.not_run(IMAGE, why);
    }
    drop(device);
    managed(sms, results);
    chunks(sms, results);
}

/// Tries memory that is attached to a stream, with an Orin's restrictions.
#[cfg(feature = "cuda")]
fn managed(sms: Option<u32>, results: &mut Results) {
    use ganglion::device::{Context, MemoryKind, try_memory};

    const BYTES: usize = 128 << 20;
    let context = match Context::open_part(true, sms) {
        Ok(context) => context,
        Err(error) => return results.fail(MANAGED, error),
    };
    match try_memory(&context, MemoryKind::Unified, BYTES) {
        Ok(tried) => {
            let own = if context.properties().concurrent_managed_access {
                "; this GPU would also allow concurrent access, so its driver has less to refuse than an Orin's"
            } else {
                ""
            };
            let mib = tried.bytes >> 20;
            let observed = format!(
                "{mib} MiB filled in {:.0?}, as written{own}",
                tried.filled_in
            );
            results.pass(MANAGED, observed);
        }
        Err(error) => results.fail(MANAGED, error),
    }
}

#[cfg(feature = "cuda")]
fn chunks(sms: Option<u32>, results: &mut Results) {
    use ganglion::device::{Context, MemoryKind};
    use ganglion::trial::{TrialError, chunks};

    // A board needs this much to stay alive.
    const LEAST: u64 = 1 << 30;
    const EIGHTH: u64 = 8;
    let context = match Context::open_part(false, sms) {
        Ok(context) => context,
        Err(error) => return results.fail(CHUNKS, error),
    };
    let of = context.properties();
    let kind = if of.integrated {
        MemoryKind::Unified
    } else {
        MemoryKind::Device
    };
    let reserve = LEAST.max(of.memory / EIGHTH);
    let free = || {
        if of.integrated {
            available().ok_or_else(|| TrialError::Wrong("MemAvailable cannot be read".into()))
        } else {
            Ok(context.free_memory()?)
        }
    };
    match chunks::take(&context, kind, reserve, free) {
        Ok(taken) => {
            let end = if taken.refused {
                "the driver refused the next one"
            } else {
                "then the reserve was reached"
            };
            let [bytes, fell, missing, reserve] =
                [taken.bytes, taken.fell, taken.missing, reserve].map(|bytes| bytes >> 20);
            let observed = format!(
                "{} chunks, {bytes} MiB: free memory fell by {fell} MiB, {missing} MiB are missing afterwards; {end} \
                 ({reserve} MiB)",
                taken.chunks
            );
            results.judge(CHUNKS, !taken.refused && taken.chunks > 0, observed);
        }
        Err(error) => results.fail(CHUNKS, error),
    }
}

//! The time and peak memory of loading a model.
//!
//! Memory is the decrease of free memory of the system and of a discrete GPU together. The process's own count would
//! miss driver pages, where a Jetson keeps the model. A control group's count would include the page cache of the file.
//! Other programs influence the figure.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::memory::available;
#[cfg(feature = "cuda")]
use crate::device::{self, Arena, Context, Plan, Stream};
use crate::runner::MemoryUse;

/// The interval between two readings of memory.
const INTERVAL: Duration = Duration::from_millis(2);

/// The measurements of one load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    seconds: f64,
    /// The speed of reading the weights, in 10^9 bytes per second.
    gigabytes_per_second: Option<f64>,
}

impl Load {
    /// Times `load`, which reports the bytes of weights that it has read and their total.
    pub(super) fn time<T>(load: impl FnOnce(&mut dyn FnMut(u64, u64)) -> T) -> (T, Self) {
        let (mut first, mut last) = (None, None);
        let start = Instant::now();
        let loaded = load(&mut |read, all| {
            let now = (Instant::now(), read);
            first.get_or_insert(now);
            if read >= all {
                last.get_or_insert(now);
            }
        });
        let seconds = start.elapsed().as_secs_f64();
        let read = first.zip(last);
        let speed = read.and_then(
            |((start, before), (end, all)): ((Instant, u64), (_, u64))| {
                let bytes = all.checked_sub(before).filter(|bytes| *bytes > 0)?;
                #[allow(clippy::cast_precision_loss)] // shown to three digits
                Some(bytes as f64 / (end - start).as_secs_f64() / 1e9)
            },
        );
        let load = Self {
            seconds,
            gigabytes_per_second: speed,
        };
        (loaded, load)
    }
}

/// The memory readings during a load.
pub(super) struct Watched {
    /// The seconds until the GPU could be used, which do not count as part of the load; `None` without a GPU.
    device: Option<f64>,
    /// The largest decrease of free memory; `None` where it is unknown.
    peak: Option<u64>,
}

/// Runs `load` and watches memory meanwhile. With `gpu`, a GPU is opened first, so that the driver's own memory does
/// not count.
pub(super) fn watch<T>(gpu: bool, load: impl FnOnce() -> T) -> (T, Watched) {
    let (ready, opened) = mpsc::channel();
    let (stop, stopped) = mpsc::channel();
    thread::scope(|scope| {
        let watch = scope.spawn(move || largest_fall(gpu, &ready, &stopped));
        let device = opened.recv().ok().flatten();
        let loaded = load();
        drop::<Sender<()>>(stop);
        let peak = watch.join().ok().flatten();
        (loaded, Watched { device, peak })
    })
}

/// Returns the largest decrease of free memory until `stopped` is closed. Sends the time that it took to open the GPU
/// to `ready`.
fn largest_fall(gpu: bool, ready: &Sender<Option<f64>>, stopped: &Receiver<()>) -> Option<u64> {
    let start = Instant::now();
    let device = gpu.then(open_device).flatten();
    let opened = device.is_some().then(|| start.elapsed().as_secs_f64());
    // Only the sum counts: pages of unified memory move between the two.
    let free = || {
        let of_device = device.as_ref().map_or(Some(0), |free| free());
        of_device?.checked_add(available()?)
    };
    let before = free();
    let mut least = before;
    // Without a receiver the load has ended, and `stopped` is closed too.
    let _ = ready.send(opened);
    loop {
        let ended = stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout);
        least = least.min(free());
        if ended {
            return Some(before?.saturating_sub(least?));
        }
    }
}

/// Reads the free bytes of a GPU's own memory, and keeps the GPU open.
type FreeBytes = Box<dyn Fn() -> Option<u64>>;

#[cfg(feature = "cuda")]
fn open_device() -> Option<FreeBytes> {
    let context = Context::open(false).ok()?;
    use_unified(&context).ok()?;
    Some(Box::new(move || {
        if context.properties().integrated {
            return Some(0);
        }
        context.free_memory().ok()
    }))
}

/// Uses unified memory once, because the driver then allocates memory for itself and keeps it.
#[cfg(feature = "cuda")]
fn use_unified(context: &std::rc::Rc<Context>) -> device::Result<()> {
    let mut plan = Plan::new();
    let region = plan.add(1 << 20)?;
    let mut stream = Stream::new(context)?;
    let mut arena = Arena::new(context, device::MemoryKind::Unified, &plan)?;
    arena.write(region, &vec![1; 1 << 20], &mut stream)?;
    arena.attach(&mut stream)?;
    arena.set(region, 0, &mut stream)?;
    stream.synchronize()
}

#[cfg(not(feature = "cuda"))]
fn open_device() -> Option<FreeBytes> {
    None
}

/// The measurements of loading. The keys are stable: scripts read them.
#[derive(Debug, Serialize)]
pub(super) struct Loading {
    device_open_seconds: Option<f64>,
    load_seconds: f64,
    /// The speed of reading the model's file during the load, in 10^9 bytes per second. The file comes from the disk
    /// unless the page cache could not be emptied.
    load_gigabytes_per_second: Option<f64>,
    /// The speed of reading the file around the page cache without other work, in 10^9 bytes per second.
    disk_gigabytes_per_second: Option<f64>,
    percent_of_disk: Option<f64>,
    /// The duration of a load from the page cache.
    cached_load_seconds: Option<f64>,
    cached_gigabytes_per_second: Option<f64>,
    load_peak_bytes: Option<u64>,
    /// The peak relative to the weights and the cache.
    load_peak_ratio: Option<f64>,
    weight_bytes: u64,
    kv_bytes: u64,
    activation_bytes: u64,
}

impl Loading {
    /// Combines the first load, its memory readings, the disk's speed, and a load from the page cache.
    #[allow(clippy::cast_precision_loss)] // shown to three digits
    pub(super) fn new(
        (load, watched): (Load, &Watched),
        disk: Option<f64>,
        cached: Option<Load>,
        memory: MemoryUse,
    ) -> Self {
        let speed = load.gigabytes_per_second;
        let disk = disk.map(|bytes| bytes / 1e9);
        let lasting = memory.weights + memory.kv + memory.states;
        Self {
            device_open_seconds: watched.device,
            load_seconds: load.seconds,
            load_gigabytes_per_second: speed,
            disk_gigabytes_per_second: disk,
            percent_of_disk: speed.zip(disk).map(|(speed, disk)| 100.0 * speed / disk),
            cached_load_seconds: cached.map(|cached| cached.seconds),
            cached_gigabytes_per_second: cached.and_then(|cached| cached.gigabytes_per_second),
            load_peak_bytes: watched.peak,
            load_peak_ratio: watched.peak.map(|peak| peak as f64 / lasting as f64),
            weight_bytes: memory.weights,
            kv_bytes: memory.kv,
            activation_bytes: memory.activations,
        }
    }
}

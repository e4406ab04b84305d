//! What loading a model takes: time, and memory at its peak.
//!
//! Memory is what the system and a discrete GPU together have less of than just before, not what this
//! process counts as its own: on a Jetson the model lies in the driver's pages, which no process counts.
//! Nor is it a cgroup's count, which holds the page cache of the file that is read. What other programs
//! take or give meanwhile counts too.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::memory::available;
#[cfg(feature = "cuda")]
use crate::device::{self, Arena, Context, Plan, Stream};
use crate::runner::MemoryUse;

/// So long it waits between two readings of memory.
const INTERVAL: Duration = Duration::from_millis(2);

/// What one load took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    seconds: f64,
    /// The weights were read at this speed, in 10^9 bytes.
    gigabytes_per_second: Option<f64>,
}

impl Load {
    /// Times `load`, which tells how many bytes of the weights it has read, and of how many.
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

/// What was seen of the memory while a model was loaded.
pub(super) struct Watched {
    /// The GPU could be used after so many seconds, which is not part of the load; `None` without one.
    device: Option<f64>,
    /// Memory fell by so many bytes at most; `None` where nothing tells.
    peak: Option<u64>,
}

/// Runs `load` and watches memory meanwhile. With `gpu` a GPU is opened first if there is one: what its
/// driver takes for itself belongs to no model.
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

/// By how much free memory falls, at most, until `stopped` is closed; `ready` is told how long it took to
/// open the GPU.
fn largest_fall(gpu: bool, ready: &Sender<Option<f64>>, stopped: &Receiver<()>) -> Option<u64> {
    let start = Instant::now();
    let device = gpu.then(open_device).flatten();
    let opened = device.is_some().then(|| start.elapsed().as_secs_f64());
    // The sum is what counts: pages of unified memory move from one to the other.
    let free = || {
        let of_device = device.as_ref().map_or(Some(0), |free| free());
        of_device?.checked_add(available()?)
    };
    let before = free();
    let mut least = before;
    // If nobody listens any more, the load has ended, and `stopped` says so too.
    let _ = ready.send(opened);
    loop {
        let ended = stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout);
        least = least.min(free());
        if ended {
            return Some(before?.saturating_sub(least?));
        }
    }
}

/// Reads the free bytes that a GPU has besides the system's, and keeps it open.
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

/// The first use of unified memory takes the driver some for itself, and keeps it.
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

/// The keys are stable: scripts read them.
#[derive(Debug, Serialize)]
pub(super) struct Loading {
    device_open_seconds: Option<f64>,
    load_seconds: f64,
    /// The model's file is read at this speed, in 10^9, while weights are read: from the disk, unless the page cache
    /// could not be emptied.
    load_gigabytes_per_second: Option<f64>,
    /// Reading the file around the page cache, besides nothing else, does so much, in 10^9 bytes per second.
    disk_gigabytes_per_second: Option<f64>,
    percent_of_disk: Option<f64>,
    /// A load from the page cache took so long.
    cached_load_seconds: Option<f64>,
    cached_gigabytes_per_second: Option<f64>,
    load_peak_bytes: Option<u64>,
    /// The peak is so many times the weights and the cache.
    load_peak_ratio: Option<f64>,
    weight_bytes: u64,
    kv_bytes: u64,
    activation_bytes: u64,
}

impl Loading {
    /// The first load, what was seen meanwhile, what the disk alone does, and a load from the page cache.
    #[allow(clippy::cast_precision_loss)] // shown to three digits
    pub(super) fn new(
        (load, watched): (Load, &Watched),
        disk: Option<f64>,
        cached: Option<Load>,
        memory: MemoryUse,
    ) -> Self {
        let speed = load.gigabytes_per_second;
        let disk = disk.map(|bytes| bytes / 1e9);
        let lasting = memory.weights + memory.kv;
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

//! What loading a model takes: time, and memory at its peak.
//!
//! Memory is what the system and a discrete GPU together have less of than just before, not what this
//! process counts as its own: on a Jetson the model lies in the driver's pages, which no process counts.
//! Nor is it a cgroup's count, which holds the page cache of the file that is read. What other programs
//! take or give meanwhile counts too.

use std::fmt;
#[cfg(feature = "cuda")]
use std::rc::Rc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

#[cfg(feature = "cuda")]
use ganglion::device::{self, Arena, Context, Plan, Stream};
use ganglion::engine;
use serde::Serialize;

use super::memory::Available;
use super::report::megabytes;

/// Between two readings of memory.
const INTERVAL: Duration = Duration::from_millis(2);

/// How long reading the weights took, of a load.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    /// When the first of them had come, and how many bytes that were.
    first: Option<(Instant, u64)>,
    /// When all had come, and how many bytes that were.
    last: Option<(Instant, u64)>,
}

impl Reading {
    /// Some have come.
    pub(crate) fn note(&mut self, read: u64, all: u64) {
        if self.last.is_some() {
            return;
        }
        let now = (Instant::now(), read);
        self.first.get_or_insert(now);
        if read >= all {
            self.last = Some(now);
        }
    }

    /// 10^9 bytes per second.
    #[allow(clippy::cast_precision_loss)] // shown to three digits
    fn gigabytes_per_second(self) -> Option<f64> {
        let ((start, before), (end, all)) = (self.first?, self.last?);
        let bytes = all.checked_sub(before).filter(|bytes| *bytes > 0)?;
        Some(bytes as f64 / (end - start).as_secs_f64() / 1e9)
    }
}

/// What `watch` saw.
pub(crate) struct Watched {
    /// Until the GPU could be used, which is not part of the load; `None` without one.
    device: Option<Duration>,
    load: Duration,
    reading: Reading,
    /// Bytes; `None` where nothing tells.
    peak: Option<u64>,
}

/// The same of a model whose files the page cache holds.
pub(crate) struct Cached {
    pub(crate) load: Duration,
    pub(crate) reading: Reading,
}

/// Runs `load` and watches memory meanwhile. With `gpu` a GPU is opened first if there is one: what its
/// driver takes for itself belongs to no model.
pub(crate) fn watch<T>(gpu: bool, load: impl FnOnce(&mut Reading) -> T) -> (T, Watched) {
    let (ready, opened) = mpsc::channel();
    let (stop, stopped) = mpsc::channel();
    thread::scope(|scope| {
        let watch = scope.spawn(move || largest_fall(gpu, &ready, &stopped));
        let device = opened.recv().ok().flatten();
        let start = Instant::now();
        let mut reading = Reading::default();
        let loaded = load(&mut reading);
        let load = start.elapsed();
        drop::<Sender<()>>(stop);
        let peak = watch.join().ok().flatten();
        let watched = Watched {
            device,
            load,
            reading,
            peak,
        };
        (loaded, watched)
    })
}

/// By how much free memory falls, at most, until `stopped` is closed; `ready` is told how long it took to
/// open the GPU.
fn largest_fall(
    gpu: bool,
    ready: &Sender<Option<Duration>>,
    stopped: &Receiver<()>,
) -> Option<u64> {
    let start = Instant::now();
    let device = gpu.then(open_device).flatten();
    let opened = device.is_some().then(|| start.elapsed());
    // The sum is what counts: pages of unified memory move from one to the other.
    let system = Available::new();
    let free = || {
        let system = system.as_ref()?.read()?;
        match &device {
            Some(device) => device()?.checked_add(system),
            None => Some(system),
        }
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
            Some(0)
        } else {
            context.free_memory().ok()
        }
    }))
}

/// The first use of unified memory takes the driver some for itself, and keeps it.
#[cfg(feature = "cuda")]
fn use_unified(context: &Rc<Context>) -> device::Result<()> {
    let mut plan = Plan::new();
    let region = plan.add(1 << 20)?;
    let mut stream = Stream::new(context)?;
    let mut arena = Arena::new(context, device::Memory::Unified, &plan)?;
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
pub(crate) struct Loading {
    device_open_seconds: Option<f64>,
    load_seconds: f64,
    /// Of the model's file, in 10^9, while weights are read: from the disk, unless the page cache could not be emptied.
    load_gigabytes_per_second: Option<f64>,
    /// What reading the file around the page cache does besides nothing else, in 10^9 bytes per second.
    disk_gigabytes_per_second: Option<f64>,
    percent_of_disk: Option<f64>,
    /// From the page cache.
    cached_load_seconds: Option<f64>,
    cached_gigabytes_per_second: Option<f64>,
    load_peak_bytes: Option<u64>,
    /// Of weights and cache.
    load_peak_ratio: Option<f64>,
    weight_bytes: u64,
    kv_bytes: u64,
    activation_bytes: u64,
}

impl Loading {
    #[allow(clippy::cast_precision_loss)] // shown to three digits
    pub(crate) fn new(
        watched: &Watched,
        disk: Option<f64>,
        cached: Option<&Cached>,
        memory: engine::Memory,
    ) -> Self {
        let speed = watched.reading.gigabytes_per_second();
        let disk = disk.map(|bytes| bytes / 1e9);
        let lasting = memory.weights + memory.kv;
        Self {
            device_open_seconds: watched.device.map(|device| device.as_secs_f64()),
            load_seconds: watched.load.as_secs_f64(),
            load_gigabytes_per_second: speed,
            disk_gigabytes_per_second: disk,
            percent_of_disk: speed.zip(disk).map(|(speed, disk)| 100.0 * speed / disk),
            cached_load_seconds: cached.map(|cached| cached.load.as_secs_f64()),
            cached_gigabytes_per_second: cached
                .and_then(|cached| cached.reading.gigabytes_per_second()),
            load_peak_bytes: watched.peak,
            load_peak_ratio: watched.peak.map(|peak| peak as f64 / lasting as f64),
            weight_bytes: memory.weights,
            kv_bytes: memory.kv,
            activation_bytes: memory.activations,
        }
    }
}

impl fmt::Display for Loading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "loaded from disk in {:.2} s", self.load_seconds)?;
        if let Some(speed) = self.load_gigabytes_per_second {
            write!(f, ", weights at {speed:.2} GB/s")?;
        }
        match (self.disk_gigabytes_per_second, self.percent_of_disk) {
            (Some(disk), Some(percent)) => write!(
                f,
                "; the disk alone reads them at {disk:.2} GB/s (O_DIRECT): {percent:.0}% of it"
            )?,
            (Some(disk), None) => write!(f, "; the disk alone reads at {disk:.2} GB/s")?,
            (None, _) => write!(f, "; the disk alone: not measured (no O_DIRECT here)")?,
        }
        writeln!(f)?;
        match self.cached_load_seconds {
            Some(seconds) => write!(f, "cached: loaded in {seconds:.2} s")?,
            None => write!(
                f,
                "cached: not measured (no room for the file beside the model)"
            )?,
        }
        if let Some(speed) = self.cached_gigabytes_per_second {
            write!(f, ", weights at {speed:.2} GB/s")?;
        }
        writeln!(f)?;
        if let Some(seconds) = self.device_open_seconds {
            writeln!(f, "the GPU was opened in {seconds:.2} s before")?;
        }
        if let (Some(peak), Some(ratio)) = (self.load_peak_bytes, self.load_peak_ratio) {
            writeln!(
                f,
                "peak while loading: {} MB = {ratio:.2} x (weights {} MB + KV {} MB); activations {} MB",
                megabytes(peak),
                megabytes(self.weight_bytes),
                megabytes(self.kv_bytes),
                megabytes(self.activation_bytes),
            )?;
        }
        Ok(())
    }
}

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

use super::available::Available;
use super::report::megabytes;

/// Between two readings of memory.
const INTERVAL: Duration = Duration::from_millis(2);

/// What `watch` saw.
pub(crate) struct Watched {
    /// Until the GPU could be used, which is not part of the load; `None` without one.
    device: Option<Duration>,
    load: Duration,
    /// Bytes; `None` where nothing tells.
    peak: Option<u64>,
}

/// Runs `load` and watches memory meanwhile. With `gpu` a GPU is opened first if there is one: what its
/// driver takes for itself belongs to no model.
pub(crate) fn watch<T>(gpu: bool, load: impl FnOnce() -> T) -> (T, Watched) {
    let (ready, opened) = mpsc::channel();
    let (stop, stopped) = mpsc::channel();
    thread::scope(|scope| {
        let watch = scope.spawn(move || largest_fall(gpu, &ready, &stopped));
        let device = opened.recv().ok().flatten();
        let start = Instant::now();
        let loaded = load();
        let load = start.elapsed();
        drop::<Sender<()>>(stop);
        let peak = watch.join().ok().flatten();
        (loaded, Watched { device, load, peak })
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
    /// Of the model's file, in 10^9: from a disk, or from the page cache if it lies there.
    load_gigabytes_per_second: Option<f64>,
    load_peak_bytes: Option<u64>,
    /// Of weights and cache.
    load_peak_ratio: Option<f64>,
    weight_bytes: u64,
    kv_bytes: u64,
    activation_bytes: u64,
}

impl Loading {
    #[allow(clippy::cast_precision_loss)] // shown to three digits
    pub(crate) fn new(watched: &Watched, memory: engine::Memory, file_bytes: Option<u64>) -> Self {
        let seconds = watched.load.as_secs_f64();
        let lasting = memory.weights + memory.kv;
        Self {
            device_open_seconds: watched.device.map(|device| device.as_secs_f64()),
            load_seconds: seconds,
            load_gigabytes_per_second: file_bytes.map(|bytes| bytes as f64 / seconds / 1e9),
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
        write!(f, "loaded in {:.2} s", self.load_seconds)?;
        if let Some(speed) = self.load_gigabytes_per_second {
            write!(f, ", {speed:.2} GB/s of the model's file")?;
        }
        if let Some(seconds) = self.device_open_seconds {
            write!(f, "; the GPU was opened in {seconds:.2} s before")?;
        }
        writeln!(f)?;
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

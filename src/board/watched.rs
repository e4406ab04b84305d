//! What all threads know of the board: its last state, its energy, and what a hot board allows.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;

use super::energy::EnergyMeter;
use super::sensors::Sensors;
use super::slowing::{Cause, Rules};
use super::state::BoardState;

/// How long a state is as good as a new one.
const FRESH: Duration = Duration::from_millis(500);
/// No limit of rows.
const ALL: usize = usize::MAX;

/// The board that is watched. One thread follows it (`publish`), any thread reads what is known of it.
#[derive(Debug)]
pub struct Watched {
    root: ArcSwap<PathBuf>,
    state: ArcSwapOption<(Instant, Arc<BoardState>)>,
    /// Held during a read. Sensors can make their reader wait: no more than one reader does.
    reading: Mutex<()>,
    rules: ArcSwap<Rules>,
    most_rows: AtomicUsize,
    causes: ArcSwap<Vec<Cause>>,
    /// The energy while requests are answered.
    pub energy: EnergyMeter,
}

impl Default for Watched {
    fn default() -> Self {
        Self {
            root: ArcSwap::from_pointee("/".into()),
            state: ArcSwapOption::default(),
            reading: Mutex::default(),
            rules: ArcSwap::default(),
            most_rows: AtomicUsize::new(ALL),
            causes: ArcSwap::default(),
            energy: EnergyMeter::default(),
        }
    }
}

impl Watched {
    /// Sets the folder below which its files are. It is `/` unless another one is set.
    pub fn set_root(&self, root: &Path) {
        self.root.store(Arc::new(root.to_owned()));
        self.state.store(None);
    }

    /// Finds its sensors, which can take milliseconds.
    #[must_use]
    pub fn sensors(&self) -> Sensors {
        Sensors::find(&self.root.load())
    }

    #[must_use]
    pub fn rules(&self) -> Rules {
        **self.rules.load()
    }

    pub fn set_rules(&self, rules: Rules) {
        self.rules.store(Arc::new(rules));
    }

    /// Returns its state, which is at most half a second old, unless another thread is reading the sensors. It can take
    /// milliseconds.
    #[must_use]
    pub fn state(&self) -> Arc<BoardState> {
        let last = || self.state.load_full();
        let Some(_reading) = self.reading.try_lock() else {
            return last().map_or_else(Arc::default, |last| last.1.clone());
        };
        match last() {
            Some(last) if last.0.elapsed() < FRESH => last.1.clone(),
            _ => self.keep(self.sensors().read()),
        }
    }

    /// Reads the sensors anew, for the thread that follows the board.
    #[must_use]
    pub fn read(&self, sensors: &Sensors) -> Arc<BoardState> {
        let _reading = self.reading.lock();
        self.keep(sensors.read())
    }

    fn keep(&self, state: BoardState) -> Arc<BoardState> {
        let state = Arc::new(state);
        let now = Instant::now();
        self.state.store(Some(Arc::new((now, state.clone()))));
        state
    }

    /// Publishes what slows decoding down, and whether the board is hot.
    pub fn publish(&self, causes: Vec<Cause>, is_hot: bool) {
        let rows = if is_hot {
            self.rules().rows.max(1)
        } else {
            ALL
        };
        self.most_rows.store(rows, Ordering::Relaxed);
        self.causes.store(Arc::new(causes));
    }

    /// Returns what slows decoding down.
    #[must_use]
    pub fn causes(&self) -> Arc<Vec<Cause>> {
        self.causes.load_full()
    }

    /// Returns the most rows of a step while the board is hot; `None` while it is not.
    #[must_use]
    pub fn row_limit(&self) -> Option<usize> {
        Some(self.most_rows.load(Ordering::Relaxed)).filter(|rows| *rows != ALL)
    }
}

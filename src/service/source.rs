//! The thread that produces the tokens: an engine with a model, or a script.

use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use tokio::sync::oneshot;

use crate::config::{self, Config};
use crate::engine::sim::{self, Script};
use crate::engine::{Receiver, worker};
use crate::graph::Budget;
use crate::graph::GraphOptions;
use crate::guess;
use crate::journal;
use crate::load::{self, KvMemory};

/// The source of tokens.
#[derive(Debug)]
pub enum TokenSource {
    /// The path of a model.
    Model(PathBuf),
    /// A script, for tests.
    Script(Script),
}

/// The engine's thread.
#[derive(Debug)]
pub(super) struct Thread {
    /// Closed when the thread ends, in order or by a panic; nothing is sent.
    end: oneshot::Receiver<()>,
}

impl Thread {
    fn spawn(body: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let (alive, end) = oneshot::channel();
        let runtime = tokio::runtime::Handle::current();
        thread::Builder::new()
            .name("engine".into())
            .spawn(move || {
                let _alive = alive;
                let _entered = runtime.enter();
                body();
            })?;
        Ok(Self { end })
    }

    /// Waits until the thread has ended. Further calls return at once.
    pub(super) async fn ended(&mut self) {
        if !self.end.is_terminated() {
            let _ = (&mut self.end).await;
        }
    }
}

impl TokenSource {
    /// Starts to serve `inbox`.
    pub(super) fn start(self, inbox: Receiver, config: &Config) -> io::Result<Thread> {
        match self {
            Self::Model(path) => {
                let settings = settings(&path, config);
                journal::loading(&path.display().to_string());
                Thread::spawn(move || {
                    // The error has reached all waiting callers, and the engine's status has it.
                    let _ = worker::run(&inbox, &settings);
                })
            }
            Self::Script(script) => Thread::spawn(move || sim::run(&inbox, &script)),
        }
    }
}

/// Returns the part of the configuration that the engine needs.
#[must_use]
pub fn settings(model: &Path, config: &Config) -> worker::Settings {
    worker::Settings {
        model: model.to_owned(),
        chat_template: config.model.chat_template.clone(),
        runner: load::Settings {
            backend: config.backend,
            draft: config.draft.model.clone(),
            head: head(config.engine.guess),
            vision: load::VisionSettings {
                tower: config.model.vision.clone(),
                max_pixels: config.vision.max_pixels,
                max_tokens: config.vision.max_tokens,
                cache: config.vision.cache_mib << 20,
            },
            kv_type: config.kv.choices(),
            context: config.kv.context,
            shortens: !config.kv.context_is_set,
            kv_memory: kv_memory(&config.kv),
            reuse: config.kv.reuse,
            rows: config.engine.rows,
            graph: graph(&config.graph),
            threads: config.cpu.threads,
            precision: config.cpu.activations,
            prefill_chunk: config.engine.prefill_chunk,
            reserve: config.memory.reserve_mib << 20,
            cuda: load::CudaSettings {
                activations: config.device.activations.into(),
                weights: config.memory.weights,
                kv: config.memory.kv,
                spin: config.engine.spin,
                emulate_tegra: config.device.emulate_tegra,
                multiprocessors: None,
            },
            ..load::Settings::default()
        },
    }
}

/// Returns whether the model's head is loaded.
fn head(mode: guess::Mode) -> load::Head {
    match mode {
        guess::Mode::Off | guess::Mode::Lookup | guess::Mode::Draft => load::Head::Off,
        guess::Mode::Auto => load::Head::IfPresent,
        guess::Mode::Head => load::Head::Required,
    }
}

fn kv_memory(config: &config::Kv) -> KvMemory {
    match (config.memory_mib, config.slots) {
        (0, None) => KvMemory::Auto,
        (0, Some(slots)) => KvMemory::Conversations(slots),
        (mebibytes, _) => KvMemory::Mebibytes(mebibytes),
    }
}

fn graph(config: &config::Graph) -> GraphOptions {
    GraphOptions {
        mode: config.mode,
        capture_sizes: config.capture_sizes.clone(),
        budget: Budget {
            graphs: config.prompt_graphs,
            bytes: config.prompt_mib << 20,
        },
        record_at_start: config.record_at_start,
        verify_addresses: config.debug.verify_addresses,
        refuse_launches: config.debug.refuse_launches,
        ..GraphOptions::default()
    }
}

//! An engine with a tiny model, and other settings of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ganglion::engine::{Client, Handle, Held, Hold, Limits, State, channel, worker};
use ganglion::graph::GraphOptions;
use ganglion::kv::Reuse;
use ganglion::load;
use ganglion::load::{Backend, KvMemory};
use ganglion::tools::Formats;

use crate::support::journal::Journal;
use crate::support::limits::limits;

pub(super) const LIMITS: Limits = limits(64, Duration::from_micros(200));

/// The file of a chat template next to a model without one.
pub(super) const TEMPLATE: &str = "template.jinja";

pub(super) fn template(folder: &Path) -> Option<PathBuf> {
    Some(folder.join(TEMPLATE)).filter(|path| path.exists())
}

/// An engine with a tiny model on its own thread.
pub(crate) struct Engine {
    pub(crate) handle: Handle,
    pub(super) journal: Journal,
}

impl Engine {
    pub(crate) async fn start(folder: &Path, rows: usize, whole: usize) -> Self {
        Self::with_context(folder, rows, whole, 256).await
    }

    pub(crate) async fn with_context(
        folder: &Path,
        rows: usize,
        whole: usize,
        context: usize,
    ) -> Self {
        let runner = load::Settings {
            context,
            kv_memory: KvMemory::Conversations(whole),
            rows,
            ..Self::settings()
        };
        Self::with(folder, runner).await
    }

    /// Memory of the cache comes and goes all the time, steps are launched ahead, and are left wherever they may be.
    pub(crate) fn settings() -> load::Settings {
        load::Settings {
            backend: Backend::Cpu,
            context: 256,
            kv_chunk: 1,
            kv_rest: Duration::from_millis(1),
            reuse: Reuse::Exact,
            threads: 1,
            prefill_chunk: 16,
            launch_ahead: true,
            graph: GraphOptions {
                part_bytes: 1,
                ..GraphOptions::default()
            },
            ..load::Settings::default()
        }
    }

    /// Starts an engine whose model is still loading.
    pub(crate) fn loading(folder: &Path) -> Handle {
        Self::begin(folder, Self::settings(), &Journal::default())
    }

    pub(crate) async fn with(folder: &Path, runner: load::Settings) -> Self {
        let journal = Journal::default();
        let handle = Self::begin(folder, runner, &journal);
        let mut status = handle.status();
        let loaded = status.wait_for(|status| status.state != State::Loading);
        let loaded = loaded.await.expect("the engine lives").clone();
        assert_eq!(loaded.state, State::Ready, "{}", loaded.detail);
        Self { handle, journal }
    }

    pub(super) fn begin(folder: &Path, runner: load::Settings, journal: &Journal) -> Handle {
        let (handle, inbox) = channel(LIMITS);
        let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/tools");
        handle.set_formats(Formats::read(&formats).expect("they are right"));
        let settings = worker::Settings {
            model: folder.join("tiny.gguf"),
            chat_template: template(folder),
            runner,
        };
        let captured = journal.clone();
        std::thread::spawn(move || captured.during(|| worker::run(&inbox, &settings)));
        handle
    }

    /// Requests that were evicted and started again.
    pub(super) fn made_way(&self) -> usize {
        let (mut begun, mut again) = (BTreeSet::new(), 0);
        for entry in self.journal.take() {
            if entry.contains_key("sequence") {
                again += usize::from(!begun.insert(entry["request_id"].clone()));
            }
        }
        again
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.handle.close();
    }
}

/// Settings of another model, from the engine's view.
pub(super) fn another(folder: &Path, rows: usize, context: usize) -> worker::Settings {
    let mut another = of_rows(folder, rows, 8);
    another.runner.context = context;
    another
}

/// Settings of the same model, with that many rows and pages for that many whole conversations.
pub(super) fn of_rows(folder: &Path, rows: usize, whole: usize) -> worker::Settings {
    worker::Settings {
        model: folder.join("tiny.gguf"),
        chat_template: template(folder),
        runner: load::Settings {
            kv_memory: KvMemory::Conversations(whole),
            rows,
            ..Engine::settings()
        },
    }
}

/// Holds requests for another caller.
pub(super) fn hold_device(handle: &Handle, held: Held, reason: &str) -> Hold {
    let client = Client {
        name: ":1.99".into(),
        user: 99,
    };
    handle.hold(client, held, reason.into(), Duration::from_secs(60))
}

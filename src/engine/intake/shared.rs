//! What callers, requests and the engine thread share: sessions, the model's encoder, limits, the status.
//!
//! The requests that wait for the engine thread are in `queue`.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::{Mutex, MutexGuard};

use super::requests::Requests;
use super::wait_estimate::RequestTimes;
use crate::board::Watched;
use crate::engine::caller::limits::Limits;
use crate::engine::caller::request::Refusal;
use crate::engine::caller::status::{State, Status};
use crate::engine::caller::status_watch::{StatusReceiver, StatusSender};
use crate::engine::observe::live::Live;
use crate::engine::observe::progress::Progress;
use crate::engine::picture::pictures::Pictures;
use crate::engine::picture::quota::ImageQuota;
use crate::engine::picture::viewer::Viewer;
use crate::engine::prompt::encoder::{Encoder, Rules};
use crate::engine::prompt::workers::{self, Workers};
use crate::engine::reload::loaded_model::Recipe;
use crate::engine::session::open_sessions::{Locked, OpenSessions};
use crate::engine::session::sessions::{SessionId, SessionStatus};
use crate::kv_store::{self, HostRules, Key};
use crate::runner::MemoryUse;
use crate::sampler::Partial;
use crate::session_store::Store;
use crate::telemetry::Totals;
use crate::tools::Formats;

/// State that callers and the engine thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    sessions: OpenSessions,
    /// The persistent sessions on disk.
    store: Mutex<Option<Arc<Store>>>,
    /// The pages of persistent sessions on disk.
    pages: ArcSwapOption<kv_store::Store>,
    /// How many pages of idle sessions the host's memory may hold.
    host: ArcSwap<HostRules>,
    /// A lock for each user, so that calls that open or delete its named sessions run one at a time.
    naming: Mutex<HashMap<u32, Arc<tokio::sync::Mutex<()>>>>,
    limits: ArcSwap<Limits>,
    /// Milliseconds without a request after which the weights are released; 0 means never.
    unload_after: AtomicU64,
    /// The formats in which models call tools.
    formats: Mutex<Arc<Formats>>,
    /// The threads that encode prompts.
    pub(crate) encoders: Workers,
    /// The threads that compile grammars.
    pub(crate) grammars: Workers,
    /// The threads that decode images.
    pub(crate) decoders: Workers,
    pub(crate) pictures: Arc<Pictures>,
    pub(crate) image_quota: ImageQuota,
    /// `None` until a model is loaded.
    encoder: Mutex<Option<Arc<Encoder>>>,
    /// The settings and files of that model; a script has none.
    recipe: Mutex<Option<Recipe>>,
    status: StatusSender,
    pub(crate) live: Live,
    pub(crate) request_times: RequestTimes,
    /// Counts of all requests since the start.
    pub(crate) totals: Totals,
    pub(crate) progress: Progress,
    pub(crate) board: Watched,
    pub(crate) requests: Requests,
}

impl Shared {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            sessions: OpenSessions::default(),
            store: Mutex::default(),
            pages: ArcSwapOption::default(),
            host: ArcSwap::default(),
            naming: Mutex::default(),
            limits: ArcSwap::from_pointee(limits),
            unload_after: AtomicU64::default(),
            formats: Mutex::default(),
            encoders: Workers::new(workers::PROMPTS),
            grammars: Workers::new(workers::GRAMMARS),
            decoders: Workers::new(workers::IMAGES),
            pictures: Arc::default(),
            image_quota: ImageQuota::default(),
            encoder: Mutex::default(),
            recipe: Mutex::default(),
            status: StatusSender::default(),
            live: Live::default(),
            request_times: RequestTimes::default(),
            totals: Totals::default(),
            progress: Progress::default(),
            board: Watched::default(),
            requests: Requests::default(),
        }
    }

    /// Sets the formats in which models call tools.
    pub(crate) fn set_formats(&self, formats: Formats) {
        let mut known = self.formats.lock();
        *known = Arc::new(formats);
        drop(known);
        self.publish_tools();
    }

    /// Publishes the format in which the model calls tools, if there is a model.
    pub(crate) fn publish_tools(&self) {
        let Some(encoder) = self.encoder().clone() else {
            return;
        };
        let writing = encoder.writing(&self.formats());
        let name = writing.map_or_else(|_| String::new(), |writing| writing.format().name.clone());
        if self.status.borrow().model.tools != name {
            self.publish(|status| status.model.tools.clone_from(&name));
        }
    }

    /// Returns the sampling that the model's files recommend.
    pub(crate) fn recommended_sampling(&self) -> Partial {
        self.status.borrow().model.sampling
    }

    /// Returns the status, and every change of it.
    pub(crate) fn status(&self) -> StatusReceiver {
        self.status.subscribe()
    }

    /// Locks the open sessions, to change them.
    pub(crate) fn sessions(&self) -> Locked<'_> {
        self.sessions.lock()
    }

    /// Returns the status of a session without taking the lock; `None` once it is closed.
    pub(crate) fn session(&self, id: SessionId) -> Option<SessionStatus> {
        self.sessions.status(id)
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, Option<Arc<Store>>> {
        self.store.lock()
    }

    pub(crate) fn pages(&self) -> Option<Arc<kv_store::Store>> {
        self.pages.load_full()
    }

    /// Sets where pages are saved.
    pub(crate) fn set_pages(&self, pages: Arc<kv_store::Store>) {
        self.pages.store(Some(pages));
    }

    pub(crate) fn host(&self) -> HostRules {
        **self.host.load()
    }

    /// Sets how many pages the host's memory may hold.
    pub(crate) fn set_host(&self, rules: HostRules) {
        self.host.store(Arc::new(rules));
    }

    pub(crate) fn naming(&self, user: u32) -> Arc<tokio::sync::Mutex<()>> {
        let mut naming = self.naming.lock();
        naming.entry(user).or_default().clone()
    }

    pub(crate) fn limits(&self) -> Limits {
        **self.limits.load()
    }

    /// Sets the limits.
    pub(crate) fn set_limits(&self, limits: Limits) {
        self.limits.store(Arc::new(limits));
    }

    /// Returns the time without a request after which the weights are released; `None` means never.
    pub(crate) fn unload_after(&self) -> Option<Duration> {
        let after = self.unload_after.load(Ordering::Relaxed);
        (after > 0).then(|| Duration::from_millis(after))
    }

    /// Sets the time without a request after which the weights are released; zero means never.
    pub(crate) fn set_unload_after(&self, after: Duration) {
        let after = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        self.unload_after.store(after, Ordering::Relaxed);
    }

    /// Returns the formats in which models call tools.
    pub(crate) fn formats(&self) -> Arc<Formats> {
        self.formats.lock().clone()
    }

    /// Returns the rules for the prompts and answers of a user's request.
    pub(crate) fn rules(&self, user: u32) -> Rules {
        Rules {
            grammar: self.limits().grammar,
            formats: self.formats(),
            viewer: Viewer::new(self.pictures.clone(), user),
        }
    }

    pub(crate) fn encoder(&self) -> MutexGuard<'_, Option<Arc<Encoder>>> {
        self.encoder.lock()
    }

    pub(crate) fn recipe(&self) -> MutexGuard<'_, Option<Recipe>> {
        self.recipe.lock()
    }

    /// Returns the key of what the content of pages depends on, besides the executor; `None` if it is unknown.
    pub(crate) fn pages_key(&self) -> Option<Key> {
        self.recipe().as_ref()?.key()
    }

    pub(crate) fn state(&self) -> State {
        self.status.borrow().state.clone()
    }

    /// Returns an error if requests are not accepted.
    pub(crate) fn accepting(&self) -> Result<(), Refusal> {
        let status = self.status.borrow();
        match status.state {
            State::Loading | State::Ready | State::Idle => Ok(()),
            State::Failed => Err(Refusal::NotReady(status.detail.clone())),
            State::Stopping => Err(Refusal::NotReady("the daemon is stopping".into())),
        }
    }

    /// Returns the number of pages of the cache, which is 0 for a script, and the pages that the positions of a request
    /// with a given context length need.
    pub(crate) fn pages_of(&self, positions: impl Fn(usize) -> usize) -> (usize, usize) {
        let status = self.status.borrow();
        let model = &status.model;
        let needed = model.layout.pages(positions(model.context as usize));
        (model.pages as usize, needed)
    }

    /// Returns why the queue is closed: the published reason, or else that the engine has ended.
    pub(crate) fn closed(&self) -> Refusal {
        let ended = || Refusal::NotReady("the engine has ended; the service restarts it".into());
        self.accepting().err().unwrap_or_else(ended)
    }

    /// Returns the published memory use.
    pub(crate) fn memory(&self) -> MemoryUse {
        self.status.borrow().memory
    }

    /// Returns the bytes of memory that the model uses.
    pub(crate) fn model_bytes(&self) -> u64 {
        let memory = self.memory();
        memory.weights + memory.kv + memory.states + memory.activations
    }

    /// Changes the status, and counts the requests in it. `change` runs again if another thread publishes at the same time.
    pub(crate) fn publish(&self, mut change: impl FnMut(&mut Status)) {
        self.status.send_modify(|status| {
            change(status);
            status.queue_length = u32::try_from(self.requests.count()).unwrap_or(u32::MAX);
        });
    }
}

//! What callers, their turns and the engine thread share: the sessions, the model's encoder, what is told and what is in
//! force. Who waits for that thread is in `queue`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};

use super::requests::Requests;
use super::wait_estimate::RequestTimes;
use crate::engine::caller::limits::Limits;
use crate::engine::caller::request::Refusal;
use crate::engine::caller::status::{State, Status};
use crate::engine::caller::status_watch::{StatusReceiver, StatusSender};
use crate::engine::observe::live::Live;
use crate::engine::observe::progress::Progress;
use crate::engine::prompt::encoder::{Encoder, Rules};
use crate::engine::prompt::lane::{self, Lane};
use crate::engine::reload::loaded_model::Recipe;
use crate::engine::session::open_sessions::{Locked, OpenSessions};
use crate::engine::session::sessions::{SessionId, SessionStatus};
use crate::kv_store::{self, HostRules};
use crate::runner::MemoryUse;
use crate::sampler::Partial;
use crate::session_store::Store;
use crate::tools::Formats;

/// State that callers and the engine thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    sessions: OpenSessions,
    /// Where those with a name are kept.
    store: Mutex<Option<Arc<Store>>>,
    /// Where what was computed of those is.
    pages: ArcSwapOption<kv_store::Store>,
    /// How much of what was computed of any is kept in the host's memory.
    host: ArcSwap<HostRules>,
    /// Each user has one of these locks: whoever opens or deletes a session by its name waits for who does so already.
    naming: Mutex<HashMap<u32, Arc<tokio::sync::Mutex<()>>>>,
    limits: ArcSwap<Limits>,
    /// Models call tools in these formats.
    formats: Mutex<Arc<Formats>>,
    /// Makes tokens of prompts.
    pub(crate) encoders: Lane,
    /// Compiles grammars.
    pub(crate) grammars: Lane,
    /// Present once a model is loaded.
    encoder: Mutex<Option<Arc<Encoder>>>,
    /// What that model was made from; a script has none.
    recipe: Mutex<Option<Recipe>>,
    status: StatusSender,
    pub(crate) live: Live,
    pub(crate) request_times: RequestTimes,
    pub(crate) progress: Progress,
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
            formats: Mutex::default(),
            encoders: Lane::new(lane::PROMPTS),
            grammars: Lane::new(lane::GRAMMARS),
            encoder: Mutex::default(),
            recipe: Mutex::default(),
            status: StatusSender::default(),
            live: Live::default(),
            request_times: RequestTimes::default(),
            progress: Progress::default(),
            requests: Requests::default(),
        }
    }

    /// The formats in which models call tools, from now on.
    pub(crate) fn set_formats(&self, formats: Formats) {
        let mut known = self.formats.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Arc::new(formats);
        drop(known);
        self.publish_tools();
    }

    /// Publishes the format in which the model in force calls tools, if there is a model.
    pub(crate) fn publish_tools(&self) {
        let Some(encoder) = self.encoder().clone() else {
            return;
        };
        let writing = encoder.writing(&self.rules().formats);
        let name = writing.map_or_else(|_| String::new(), |writing| writing.format().name.clone());
        if self.status.borrow().model.tools != name {
            self.publish(|status| status.model.tools.clone_from(&name));
        }
    }

    /// The sampling that the published model recommends.
    pub(crate) fn recommended_sampling(&self) -> Partial {
        self.status.borrow().model.sampling
    }

    /// What is told, and every change of it.
    pub(crate) fn status(&self) -> StatusReceiver {
        self.status.subscribe()
    }

    /// Locks the sessions that are open, for one who may change them.
    pub(crate) fn sessions(&self) -> Locked<'_> {
        self.sessions.lock()
    }

    /// How a session stands, for whoever looks; `None` once it is closed.
    pub(crate) fn session(&self, id: SessionId) -> Option<SessionStatus> {
        self.sessions.status(id)
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, Option<Arc<Store>>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn pages(&self) -> Option<Arc<kv_store::Store>> {
        self.pages.load_full()
    }

    /// From now on pages are kept there.
    pub(crate) fn keep_pages(&self, pages: Arc<kv_store::Store>) {
        self.pages.store(Some(pages));
    }

    pub(crate) fn host(&self) -> HostRules {
        **self.host.load()
    }

    /// From now on so much is kept in the host's memory.
    pub(crate) fn keep_in_host(&self, rules: HostRules) {
        self.host.store(Arc::new(rules));
    }

    pub(crate) fn naming(&self, user: u32) -> Arc<tokio::sync::Mutex<()>> {
        let mut naming = self.naming.lock().unwrap_or_else(PoisonError::into_inner);
        naming.entry(user).or_default().clone()
    }

    pub(crate) fn limits(&self) -> Limits {
        **self.limits.load()
    }

    /// What is in force from now on.
    pub(crate) fn set_limits(&self, limits: Limits) {
        self.limits.store(Arc::new(limits));
    }

    /// What prompts and answers are held to.
    pub(crate) fn rules(&self) -> Rules {
        let formats = self.formats.lock().unwrap_or_else(PoisonError::into_inner);
        Rules {
            grammar: self.limits().grammar,
            formats: formats.clone(),
        }
    }

    pub(crate) fn encoder(&self) -> MutexGuard<'_, Option<Arc<Encoder>>> {
        self.encoder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn recipe(&self) -> MutexGuard<'_, Option<Recipe>> {
        self.recipe.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> State {
        self.status.borrow().state.clone()
    }

    /// Whether requests are accepted.
    pub(crate) fn accepting(&self) -> Result<(), Refusal> {
        let status = self.status.borrow();
        match status.state {
            State::Loading | State::Ready => Ok(()),
            State::Failed => Err(Refusal::NotReady(status.detail.clone())),
            State::Stopping => Err(Refusal::NotReady("the daemon is stopping".into())),
        }
    }

    /// Pages of the cache, of which a script has none, and tokens of a conversation.
    pub(crate) fn cache(&self) -> (usize, usize) {
        let status = self.status.borrow();
        (status.model.pages as usize, status.model.context as usize)
    }

    /// Why the queue is closed: what everyone was told, or else its engine has ended by itself.
    pub(crate) fn closed(&self) -> Refusal {
        let ended = || Refusal::NotReady("the engine has ended; the service restarts it".into());
        self.accepting().err().unwrap_or_else(ended)
    }

    /// What everyone was told of the memory in use.
    pub(crate) fn memory(&self) -> MemoryUse {
        self.status.borrow().memory
    }

    /// Bytes of memory that the model in force takes.
    pub(crate) fn held(&self) -> u64 {
        let memory = self.memory();
        memory.weights + memory.kv + memory.activations
    }

    /// Changes what is told, maybe more than once where others do at the same time. How many requests there are is counted
    /// each time.
    pub(crate) fn publish(&self, mut change: impl FnMut(&mut Status)) {
        self.status.send_modify(|status| {
            change(status);
            status.queue_length = u32::try_from(self.requests.count()).unwrap_or(u32::MAX);
        });
    }
}

//! The engine thread while the weights are released: it waits for a request, and loads the model again.
//!
//! Requests stay in the queue meanwhile, within their deadlines. Prompts are encoded as before, because the vocabulary stays.

use std::time::Instant;

use super::draft::Draft;
use super::loading::{progress, refuse};
use super::state::Worker;
use super::unload::Unload;
use crate::engine::caller::request::{Refusal, RequestError};
use crate::engine::generation::state::Generation;
use crate::engine::intake::control::Control;
use crate::engine::intake::prepare;
use crate::engine::intake::queue::Wanted;
use crate::engine::intake::receiver::Receiver;
use crate::engine::observe::live::{ImageCounts, News, Work};
use crate::engine::observe::{observer, report};
use crate::engine::reload::loaded_model::{LoadedModel, Settings};
use crate::engine::reload::replace;
use crate::engine::reload::replacement::Replacement;
use crate::engine::schedule::slices::Slices;
use crate::engine::session::sessions::SessionId;
use crate::journal;
use crate::kv::Owner;
use crate::load::LoadError;
use crate::runner::{MemoryUse, RetiredRunner, Runner};

/// What the engine thread owns without a model.
pub(super) struct Dormant<'a> {
    receiver: &'a Receiver,
    /// The settings of the start; those of a reload take precedence.
    settings: &'a Settings,
    retired: RetiredRunner,
    /// The measured cost of prompts, which stays that of the model.
    slices: Slices,
    image_counts: ImageCounts,
    /// Generations that continue with the next model.
    displaced: Vec<Generation>,
}

impl<'a> Dormant<'a> {
    /// Releases the weights and all other memory of a worker without generations.
    pub(super) fn new(mut worker: Worker<'a>, settings: &'a Settings, unload: Unload) -> Self {
        worker.interrupt_saving();
        worker.embeddings.clear();
        let Worker {
            receiver,
            runner,
            draft,
            slices,
            image_counts,
            observer,
            encodings,
            host,
            ..
        } = worker;
        let work = observer.work();
        let of_draft = draft.as_ref().map(Draft::memory).unwrap_or_default();
        let held = runner.memory().with(of_draft);
        drop((encodings, host, draft));
        let mut dormant = Self {
            receiver,
            settings,
            retired: runner.retire(),
            slices,
            image_counts: ImageCounts {
                cache_bytes: 0,
                ..image_counts
            },
            displaced: Vec::new(),
        };
        dormant.publish(work, held, &unload);
        unload.answer(Ok(()));
        dormant
    }

    fn publish(&mut self, work: Work, held: MemoryUse, unload: &Unload) {
        let shared = &self.receiver.shared;
        observer::report_retired_graph_events(shared, &mut self.retired);
        shared.live.publish(News::Images(self.image_counts));
        shared.live.publish(News::Work(Work {
            pages: [0; 3],
            pages_in_host: 0,
            ..work
        }));
        let model = shared.status().borrow().model.name.clone();
        journal::model_unloaded(&model, held.bytes(), unload.cause.name());
        shared.publish(|status| status.memory = MemoryUse::default());
        let why = unload.cause.name();
        (self.receiver).idle(&format!(
            "the model is unloaded ({why}); the next request loads it"
        ));
    }

    /// Waits until a request needs the model, and loads it. Returns `None` once the queue is closed and empty.
    ///
    /// # Errors
    /// If the device is lost, so that this process must end.
    pub(super) fn wait(mut self) -> Result<Option<Worker<'a>>, LoadError> {
        while let Some(wanted) = self.receiver.queue.next_without_model() {
            match wanted {
                Wanted::Control(Control::Replace(replacement)) => {
                    match self.replaced(*replacement) {
                        Ok(worker) => return Ok(Some(*worker)),
                        Err(same) => self = *same,
                    }
                    continue;
                }
                Wanted::Control(Control::Continue(generation)) => self.displaced.push(*generation),
                Wanted::Control(control) => {
                    self.obey(control);
                    continue;
                }
                Wanted::Model => {}
            }
            let begun = Instant::now();
            match self.load() {
                Ok(model) => return Ok(Some(self.awake(model, begun))),
                Err(error) if error.is_fatal() => {
                    refuse(self.receiver, &error);
                    return Err(error);
                }
                Err(error) => self.refuse_waiting(&error),
            }
        }
        Ok(None)
    }

    /// Loads the model with the present settings.
    fn load(&mut self) -> Result<LoadedModel, LoadError> {
        let shared = &self.receiver.shared;
        let present = shared
            .recipe()
            .as_ref()
            .map(|recipe| recipe.settings().clone());
        let settings = present.unwrap_or_else(|| self.settings.clone());
        self.receiver.loads_again();
        journal::loading(&settings.model.display().to_string());
        LoadedModel::load_after(&settings, Some(&mut self.retired), progress(shared))
    }

    /// Continues with a model that was loaded for a request.
    fn awake(self, mut model: LoadedModel, begun: Instant) -> Worker<'a> {
        let Self {
            receiver,
            retired,
            slices,
            image_counts,
            displaced,
            ..
        } = self;
        let shared = &receiver.shared;
        let before = shared.pages_key();
        model.runner.resume(retired);
        let active = replace::activate_again(receiver, model);
        let info = shared.status().borrow().model.clone();
        let seconds = begun.elapsed().as_secs_f64();
        journal::model_loaded(&info.name, info.weight_bytes, seconds);
        let is_same = shared.pages_key() == before;
        let mut worker = Worker::new(receiver, active);
        if is_same {
            worker.slices = slices;
        }
        worker.continue_from(image_counts, displaced);
        worker
    }

    /// Continues with the model of a reload, or without a model if its device cannot be used.
    fn replaced(self, replacement: Replacement) -> Result<Box<Worker<'a>>, Box<Self>> {
        let Replacement {
            mut model, reply, ..
        } = replacement;
        let mut all = std::iter::once(&model.runner).chain(&model.draft);
        if let Err(error) = all.try_for_each(Runner::attach_thread) {
            // The caller may have gone.
            drop(reply.send(Err(error.into())));
            return Err(Box::new(self));
        }
        model.runner.resume(self.retired);
        let active = replace::activate(self.receiver, model);
        let mut worker = Worker::new(self.receiver, active);
        worker.continue_from(self.image_counts, self.displaced);
        drop(reply.send(Ok(())));
        Ok(Box::new(worker))
    }

    /// Fails the requests that wait because the model cannot be loaded. The next request tries again.
    fn refuse_waiting(&mut self, error: &LoadError) {
        report::load_error(error);
        journal::load_again_failed(&error.to_string());
        let why = format!(
            "the model was unloaded, and cannot be loaded again: {error}; the next request tries again"
        );
        self.receiver.idle(&why);
        let refusal = match error.shortage() {
            Some(_) => Refusal::OutOfMemory(why),
            None => Refusal::NotReady(why),
        };
        for generation in self.displaced.drain(..) {
            generation.fail(RequestError::Refused(refusal.clone()));
        }
        self.receiver.refuse_waiting(&refusal);
    }

    /// Obeys a command that needs no model. The cache is empty, so those of its pages have no work.
    fn obey(&mut self, control: Control) {
        match control {
            Control::Forget {
                session: SessionId(id),
                ..
            } => self.retired.release(Owner(id)),
            // A reply fails to send if its caller has gone.
            Control::Release(reply) => drop(reply.send(Ok(()))),
            Control::ResetGraph(reply) => {
                self.retired.reset_graph();
                let life = self.retired.graph();
                journal::graph_reset(life.epoch(), life.state().name());
                self.publish_graph();
                drop(reply.send(Ok(())));
            }
            Control::SetMode(mode, reply) => {
                self.retired.set_graph_mode(mode);
                self.publish_graph();
                drop(reply.send(Ok(())));
            }
            Control::DumpGraph(reply) => {
                let why =
                    "the model is unloaded: send a request, which loads it and records its steps";
                drop(reply.send(Err(Refusal::NotReady(why.to_owned()).into())));
            }
            Control::Pages
            | Control::Pressure
            | Control::Erase(_)
            | Control::Branch { .. }
            | Control::Rewind { .. }
            | Control::Replace(_)
            | Control::Continue(_) => {}
        }
    }

    fn publish_graph(&mut self) {
        observer::report_retired_graph_events(&self.receiver.shared, &mut self.retired);
    }
}

impl Worker<'_> {
    /// Continues the counts of images, and the generations that wait for a model.
    fn continue_from(&mut self, images: ImageCounts, displaced: Vec<Generation>) {
        (self.image_counts, self.published_images) = (images, images);
        let context = self.runner.context();
        for generation in displaced {
            prepare::generation(self.queue, generation, &self.encoder, context);
        }
    }
}

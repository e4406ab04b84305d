//! The loop of the engine thread: between two steps it obeys commands, admits requests and looks after pages.

use std::time::Instant;

use super::dormant::Dormant;
use super::draft::Draft;
use super::head::Head;
use super::loading::{progress, refuse};
use super::state::Worker;
use super::unload::Unload;
use crate::engine::caller::error::EngineError;
use crate::engine::caller::request::RequestError;
use crate::engine::intake::control::{Command, Control};
use crate::engine::intake::prepare;
use crate::engine::intake::receiver::Receiver;
use crate::engine::observe::{observer, report};
use crate::engine::picture::encodings::Encodings;
use crate::engine::reload::loaded_model::{LoadedModel, Settings};
use crate::engine::reload::replace::{self, Active};
use crate::engine::reload::replacement::Replacement;
use crate::engine::schedule::slices::Slices;
use crate::engine::session::sessions::SessionId;
use crate::guess::{Past, StepCosts};
use crate::journal;
use crate::kv::Owner;
use crate::load::LoadError;
use crate::runner::RunError;

/// Loads the model, and answers requests until the queue is closed. If it fails, all requests that wait fail with the reason.
///
/// The weights are released when nobody needs them, and loaded again for the next request.
pub fn run(receiver: &Receiver, settings: &Settings) -> Result<(), LoadError> {
    let model = LoadedModel::load(settings, progress(&receiver.shared))
        .inspect_err(|error| refuse(receiver, error))?;
    let mut worker = Worker::new(receiver, replace::activate(receiver, model));
    loop {
        let served = worker.serve();
        let unload = match served {
            Ok(Some(unload)) => unload,
            Ok(None) => return worker.save_all().map_err(LoadError::from),
            Err(error) => {
                worker.fail_all(&error);
                return Err(error.into());
            }
        };
        let Some(loaded) = Dormant::new(worker, settings, unload).wait()? else {
            // Pages that were saved before the release may still be on their way.
            if let Some(pages) = receiver.shared.pages() {
                pages.flush(pages.rules().stop);
            }
            return Ok(());
        };
        worker = loaded;
    }
}

impl Worker<'_> {
    /// Answers requests until the weights are to be released, or until the queue is closed and all requests have ended.
    fn serve(&mut self) -> Result<Option<Unload>, RunError> {
        loop {
            self.end_unwanted();
            self.end_guided();
            self.replace_if_due()?;
            self.past.forget_idle(Instant::now());
            let more = self.move_pages()?;
            self.release_memory_if_due()?;
            if let Some(unload) = self.take_unload()? {
                return Ok(Some(unload));
            }
            let command = if self.has_nothing_to_do() {
                self.prefill_times.reset();
                self.publish_work(&[], 0);
                let due = self
                    .saving_due()
                    .into_iter()
                    .chain(self.release_due())
                    .chain(self.unload_due())
                    .chain(self.past.due())
                    .min();
                let next = self.queue.next(due);
                self.mark_energy();
                match next {
                    Some(command) => Some(command),
                    None => return Ok(None),
                }
            } else {
                self.idle_since = None;
                let all = self.candidates(&self.slices);
                self.queue.poll(|request| self.readiness(&all, request))
            };
            match command {
                Some(Command::Request(request)) => {
                    self.idle_since = None;
                    self.join(*request)?;
                }
                Some(Command::Control(Control::Pages)) => self.shrink_host(),
                Some(Command::Control(control)) => self.obey(control)?,
                None if self.resume_displaced()? => {}
                None if self.is_idle() => self.settle()?,
                None => self.advance(more)?,
            }
        }
    }

    /// Takes pages that have arrived, and sends pages that are due. Returns whether more may have arrived.
    fn move_pages(&mut self) -> Result<bool, RunError> {
        if !self.restores.is_empty() {
            return self.take_arrived();
        }
        if !self.unsaved.is_empty() {
            self.save()?;
        }
        Ok(false)
    }

    /// Whether the thread can only wait for a command. A replacement is due at once when the last generation has ended.
    pub(super) fn has_nothing_to_do(&self) -> bool {
        self.is_idle() && !self.runner.is_ahead() && self.replacement.is_none()
    }

    /// Ends generations that were cancelled, or whose deadline has passed.
    fn end_unwanted(&mut self) {
        for slot in self.slots.newest_first() {
            let generation = self.slots.get(slot);
            if let Some(reason) = generation.and_then(|generation| generation.request().ends()) {
                self.end(slot, reason);
            }
        }
        for at in (0..self.displaced.len()).rev() {
            if let Some(reason) = self.displaced[at].request().ends() {
                self.displaced.remove(at).finish(reason, 1);
            }
        }
    }

    /// Replaces the model if no generation is left, or if the replacement is due: then the generations continue with the
    /// new model.
    fn replace_if_due(&mut self) -> Result<(), RunError> {
        let is_due =
            |replacement: &Replacement| self.is_idle() || replacement.due <= Instant::now();
        if self.replacement.as_deref().is_some_and(is_due) {
            self.settle()?;
            for slot in self.slots.newest_first().into_iter().rev() {
                let generation = self.take_out(slot);
                self.displaced.extend(generation);
            }
            self.replace();
        }
        Ok(())
    }

    fn replace(&mut self) {
        let Some(replacement) = self.replacement.take() else {
            return;
        };
        // Figures that are not published yet belong to the old model.
        self.publish_work(&[], 0);
        // The pages of the new cache have other numbers.
        self.interrupt_saving();
        // The images of requests are encoded again by the new tower.
        let draft = &mut self.draft;
        let free = || *draft = None;
        let taken = replacement.take_place(self.receiver, &mut self.runner, free);
        if let Some((active, keeps_pages)) = taken {
            let Active {
                encoder,
                draft,
                tower,
                cache_bytes,
            } = active;
            self.encoder = encoder;
            self.draft = draft.map(Draft::new);
            self.head = Head::of(&self.runner);
            (self.encodings, self.cache_bytes) = (Encodings::new(tower), cache_bytes);
            self.embeddings.clear();
            self.slices = Slices::default();
            self.step_costs = StepCosts::default();
            self.past = Past::default();
            if !keeps_pages {
                self.unsaved.clear();
            }
            let key = self.pages_key();
            self.host.retain(key.as_ref());
            let context = self.runner.context();
            for generation in std::mem::take(&mut self.displaced) {
                prepare::generation(self.queue, generation, &self.encoder, context);
            }
        }
    }

    /// Obeys a command that is not a request.
    fn obey(&mut self, control: Control) -> Result<(), RunError> {
        match &control {
            Control::Pages
            | Control::Forget { .. }
            | Control::Replace(_)
            | Control::Continue(_) => {}
            // The session's last token may not be in its pages yet.
            Control::Branch { from: session, .. } | Control::Rewind { session, .. } => {
                self.settle_for(Owner(session.0))?;
            }
            _ => self.settle()?,
        }
        match control {
            Control::Forget {
                session: SessionId(id),
                persistent,
            } => self.forget(Owner(id), persistent),
            Control::Pages => {}
            Control::Erase(place) => self.erase(&place),
            Control::Branch {
                from: SessionId(from),
                to: SessionId(to),
            } => self.runner.branch(Owner(from), Owner(to)),
            Control::Rewind {
                session: SessionId(id),
                keep,
            } => self.rewind(Owner(id), keep)?,
            // A reply fails to send if its caller has gone.
            Control::ResetGraph(reply) => {
                self.runner.reset_graph();
                if let Some(draft) = &mut self.draft {
                    draft.reset_graph();
                }
                let life = self.runner.graph();
                journal::graph_reset(life.epoch(), life.state().name());
                self.publish_graph();
                drop(reply.send(Ok(())));
            }
            Control::DumpGraph(reply) => {
                drop(reply.send(self.runner.graph_dot().map_err(|error| {
                    let error = EngineError::from(error);
                    report::engine_error(&error);
                    RequestError::EngineFailed(error)
                })));
            }
            Control::SetMode(mode, reply) => {
                self.runner.set_graph_mode(mode);
                if let Some(draft) = &mut self.draft {
                    draft.set_graph_mode(mode);
                }
                self.publish_graph();
                drop(reply.send(Ok(())));
            }
            Control::Release(reply) => self.unload = Some(Unload::released(reply)),
            Control::Pressure => self.relieve()?,
            Control::Replace(replacement) => self.replacement = Some(replacement),
            Control::Continue(generation) => self.displaced.push(*generation),
        }
        observer::report_graph_events(self.shared, &mut self.runner);
        Ok(())
    }

    /// Rewinds the pages of a session. Only a lost device is an error: prompts are compared with all tokens of the cache, so a
    /// session that keeps too many is answered as well.
    fn rewind(&mut self, owner: Owner, keep: usize) -> Result<(), RunError> {
        match self.runner.rewind(owner, keep) {
            Err(error) if error.is_fatal() => Err(error),
            Err(error) => {
                debug_assert_ne!(error, RunError::Runs, "an idle session is rewound");
                report::engine_error(&EngineError::from(error));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Publishes the state of the decode graph, and reports its events, before a caller gets its reply.
    fn publish_graph(&mut self) {
        observer::publish_graph(self.shared, &self.runner);
        observer::report_graph_events(self.shared, &mut self.runner);
    }

    /// Fails all generations because the device is lost. Requests that wait fail when the process ends.
    fn fail_all(&mut self, error: &RunError) {
        for generation in self.slots.drain().chain(self.displaced.drain(..)) {
            generation.fail(EngineError::from(error.clone()).into());
        }
    }
}

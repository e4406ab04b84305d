//! The engine thread: loads the model, then answers turns, many at once. Before each step it does what it is asked, lets
//! those join that may (`joining`), and runs what `schedule` says: a step of all that answer (`steps`), or a slice of
//! somebody's prompt (`reading`). Between them pages of sessions go to the disk (`saving`) and come back (`restoring`), and memory that
//! nobody needs goes back to the system (`memory`).

mod arrivals;
mod joining;
mod masks;
mod memory;
mod prefill;
mod restoring;
mod saving;
mod steps;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::caller::error::EngineError;
use crate::engine::caller::request::RequestError;
use crate::engine::generation::state::Generation;
use crate::engine::intake::control::{Command, Control};
use crate::engine::intake::inbox::Inbox;
use crate::engine::intake::prepare;
use crate::engine::observe::observer::{self, Observer};
use crate::engine::observe::report;
use crate::engine::prompt::encoder::Encoder;
pub use crate::engine::reload::loaded_model::Settings;
use crate::engine::reload::loaded_model::{LoadedModel, Loading};
use crate::engine::reload::replace;
use crate::engine::reload::replacement::Replacement;
use crate::engine::schedule::policy::Candidate;
use crate::engine::schedule::prefill_time::PrefillTimes;
use crate::engine::schedule::slices::Slices;
use crate::engine::session::sessions::SessionId;
use crate::journal;
use crate::kv::Owner;
use crate::kv_store::Host;
use crate::load::LoadError;
use crate::runner::{RunError, Runner};
use restoring::Restore;
use saving::Saving;

/// Loads the model and serves turns until the queue is closed. Everyone who waits is told if it fails.
pub fn run(inbox: &Inbox, settings: &Settings) -> Result<(), LoadError> {
    let tell = |loading| {
        let detail = match loading {
            Loading::Begins(phase) => {
                inbox.progress().enter(phase);
                Some(phase.name().to_owned())
            }
            Loading::Read(percent) => percent.map(|percent| format!("loading {percent}%")),
        };
        inbox.load_step();
        if let Some(detail) = detail {
            inbox.publish(|status| status.detail.clone_from(&detail));
        }
    };
    let model = LoadedModel::load(settings, tell).inspect_err(|error| refuse(inbox, error))?;
    let (runner, encoder) = replace::put_in_force(inbox, model);
    let mut worker = Worker {
        inbox,
        runner,
        encoder,
        generations: Vec::new(),
        displaced: Vec::new(),
        ahead: Vec::new(),
        stepping: Duration::ZERO,
        slices: Slices::default(),
        prefill_times: PrefillTimes::default(),
        observer: Observer::new(inbox),
        restores: Vec::new(),
        saving: Saving::default(),
        host: Host::default(),
        spare_since: None,
        replacement: None,
    };
    let served = worker.serve().and_then(|()| worker.save_all());
    if let Err(error) = &served {
        worker.give_up(error);
    }
    served.map_err(LoadError::from)
}

/// Tells everyone why there is no model.
fn refuse(inbox: &Inbox, error: &LoadError) {
    report::load_error(error);
    inbox.publish(|status| status.passes = error.may_pass());
    inbox.fail(&error.to_string());
}

/// A model, and those whom it answers.
struct Worker<'a> {
    inbox: &'a Inbox,
    runner: Runner,
    encoder: Arc<Encoder>,
    /// Each has a place in the cache, in the order in which they joined.
    generations: Vec<Generation>,
    /// These gave up their place in the cache to others, and wait for one.
    displaced: Vec<Generation>,
    /// The entries of the step that was launched ahead, if one was: some may have left since, and others have joined.
    ahead: Vec<usize>,
    /// What it has taken so far, if it was left.
    stepping: Duration,
    slices: Slices,
    /// Whose prompts they were of.
    prefill_times: PrefillTimes,
    observer: Observer<'a>,
    /// These have joined and wait for the disk.
    restores: Vec<Restore>,
    saving: Saving,
    /// Pages of sessions that rest, where a GPU has memory of its own.
    host: Host,
    /// There has been memory that nobody needs since then, after so many turns.
    spare_since: Option<(Instant, u64)>,
    /// Takes the place of this model when the last entry has ended, or when it is due; until then only `realtime` joins.
    replacement: Option<Box<Replacement>>,
}

impl Worker<'_> {
    /// Answers until the queue is closed and everyone has an answer.
    fn serve(&mut self) -> Result<(), RunError> {
        loop {
            self.end_early();
            self.end_guided();
            self.look_after_replacement()?;
            let more = self.look_after_pages()?;
            self.look_after_memory()?;
            let command = if self.has_nothing_to_do() {
                self.prefill_times.reset();
                self.show(&[], 0);
                let due = self.saving_due().into_iter().chain(self.spare_due()).min();
                match self.inbox.next_by(due) {
                    Some(command) => Some(command),
                    None => return Ok(()),
                }
            } else {
                let all = self.candidates(&self.slices);
                self.inbox.poll(|request| self.may_join(&all, request))
            };
            match command {
                Some(Command::Request(request)) => self.join(*request)?,
                Some(Command::Control(Control::Pages)) => self.shrink_host(),
                Some(Command::Control(control)) => self.obey(control)?,
                None if self.let_back()? => {}
                None if self.is_alone() => self.settle()?,
                None => self.advance(more)?,
            }
        }
    }

    /// Takes what has come from the disk, and sends there what is due. Tells whether more may have come.
    fn look_after_pages(&mut self) -> Result<bool, RunError> {
        if !self.restores.is_empty() {
            return self.take_arrived();
        }
        if !self.saving.is_empty() {
            self.save()?;
        }
        Ok(false)
    }

    /// Whether only what comes is to be waited for: nobody is being answered, no step runs, and no other model is to take its place,
    /// which it may be since a moment ago, when the last answer has ended.
    fn has_nothing_to_do(&self) -> bool {
        self.is_alone() && !self.runner.is_ahead() && self.replacement.is_none()
    }

    /// Whether nobody is being answered.
    fn is_alone(&self) -> bool {
        self.generations.is_empty() && self.displaced.is_empty()
    }

    /// Ends those whose callers want no more.
    fn end_early(&mut self) {
        for at in (0..self.generations.len()).rev() {
            if let Some(reason) = self.generations[at].request().ends() {
                let at_once = self.generations.len();
                self.take_out(at).finish(reason, at_once);
            }
        }
        for at in (0..self.displaced.len()).rev() {
            if let Some(reason) = self.displaced[at].request().ends() {
                self.displaced.remove(at).finish(reason, 1);
            }
        }
    }

    /// An entry that has come to its end, or gives up its place in the cache.
    fn take_out(&mut self, at: usize) -> Generation {
        let mut generation = self.generations.remove(at);
        generation.leaves(self.runner.len_of(generation.slot()));
        self.runner.leave(generation.slot());
        self.restores
            .retain(|restore| restore.id != generation.id());
        if let Some(session) = generation.request().session {
            self.rests(session);
        }
        generation
    }

    /// Has another model take its place, once nobody is answered any more or nobody is waited for any longer: who is still
    /// answered goes on with the new one.
    fn look_after_replacement(&mut self) -> Result<(), RunError> {
        let is_due =
            |replacement: &Replacement| self.is_alone() || replacement.due <= Instant::now();
        if self.replacement.as_deref().is_some_and(is_due) {
            self.settle()?;
            while !self.generations.is_empty() {
                let generation = self.take_out(0);
                self.displaced.push(generation);
            }
            self.replace();
        }
        Ok(())
    }

    fn replace(&mut self) {
        let Some(replacement) = self.replacement.take() else {
            return;
        };
        // What is still to be shown is of the model from before.
        self.show(&[], 0);
        // Its pages have other numbers.
        self.interrupt_saving();
        if let Some((encoder, keeps)) = replacement.take_place(self.inbox, &mut self.runner) {
            self.encoder = encoder;
            self.slices = Slices::default();
            if !keeps {
                self.saving.clear();
            }
            let key = self.pages_key();
            self.host.retain(key.as_ref());
            let context = self.runner.context();
            for generation in std::mem::take(&mut self.displaced) {
                prepare::generation(&self.inbox.queue, generation, &self.encoder, context);
            }
        }
    }

    /// Those that have joined, where so much is known of slices.
    fn candidates(&self, slices: &Slices) -> Vec<Candidate> {
        let (share, chunk) = (self.inbox.limits().prefill, self.runner.prefill_chunk());
        let passes = |user, remaining| slices.passes(share, chunk, user, remaining);
        let candidate = |generation: &Generation| generation.candidate(&self.prefill_times, passes);
        self.generations.iter().map(candidate).collect()
    }

    /// Does what is asked besides turns.
    fn obey(&mut self, control: Control) -> Result<(), RunError> {
        match &control {
            Control::Pages | Control::Forget { .. } | Control::Replace(_) | Control::GoOn(_) => {}
            // Its last token is on its way to its pages.
            Control::Branch { from: session, .. } | Control::Rewind { session, .. } => {
                self.settle_for(Owner(session.0))?;
            }
            _ => self.settle()?,
        }
        let (inbox, runner) = (self.inbox, &mut self.runner);
        match control {
            Control::Forget {
                session: SessionId(id),
                kept,
            } => self.forget(Owner(id), kept),
            Control::Pages => {}
            Control::Erase(place) => self.erase(&place),
            Control::Branch {
                from: SessionId(from),
                to: SessionId(to),
            } => runner.branch(Owner(from), Owner(to)),
            Control::Rewind {
                session: SessionId(id),
                keep,
            } => runner.rewind(Owner(id), keep),
            // Whoever asked may have gone.
            Control::ResetGraph(reply) => {
                runner.reset_graph();
                let life = runner.graph();
                journal::graph_reset(life.epoch(), life.state().name());
                tell(inbox, runner);
                drop(reply.send(Ok(())));
            }
            Control::DumpGraph(reply) => {
                drop(reply.send(runner.graph_dot().map_err(|error| {
                    let error = EngineError::from(error);
                    report::engine_error(&error);
                    RequestError::EngineFailed(error)
                })));
            }
            Control::SetMode(mode, reply) => {
                runner.set_graph_mode(mode);
                tell(inbox, runner);
                drop(reply.send(Ok(())));
            }
            // A turn that runs keeps its model to its end, or for a while.
            Control::Replace(replacement) => self.replacement = Some(replacement),
            Control::GoOn(generation) => self.displaced.push(*generation),
        }
        observer::graph(inbox, &mut self.runner);
        Ok(())
    }

    /// The device is lost: whoever is being answered is told, and so will be those who wait, by the end of the process.
    fn give_up(&mut self, error: &RunError) {
        for generation in self.generations.drain(..).chain(self.displaced.drain(..)) {
            generation.fail(EngineError::from(error.clone()).into());
        }
    }
}

/// Tells how the decode graph is and what happened to it, before whoever asked hears that it is done.
fn tell(inbox: &Inbox, runner: &mut Runner) {
    observer::publish(inbox, runner);
    observer::graph(inbox, runner);
}

/// Ends an entry that cannot go on. Only a device that is lost is an error for the others.
fn fail(generation: Generation, error: RunError) -> Result<(), RunError> {
    generation.fail(EngineError::from(error.clone()).into());
    if error.is_fatal() { Err(error) } else { Ok(()) }
}

//! Replaces the running model: a thread loads the new model, and the engine thread activates it between two requests.
//!
//! The loader allocates everything, including a GPU's memory, while the old model answers. If anything fails before the
//! activation, the old model stays as it is.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::loaded_model::{LoadedModel, Loading, Recipe, Settings, Transition};
use super::replacement::{ReplaceError, Replaced, Replacement};
use crate::engine::caller::handle::Handle;
use crate::engine::caller::status::State;
use crate::engine::intake::control::Control;
use crate::engine::intake::receiver::Receiver;
use crate::engine::intake::shared::Shared;
use crate::engine::observe::live::News;
use crate::engine::observe::{observer, report};
use crate::engine::prompt::encoder::Encoder;
use crate::runner::{Runner, Tower};

impl Handle {
    /// Applies settings, and returns when they are active. A model is loaded only if the settings or its files differ. Then
    /// active generations may run on the old model for `drain`, and continue with the new one.
    pub async fn replace(
        &self,
        settings: Settings,
        drain: Duration,
    ) -> Result<Replaced, ReplaceError> {
        self.answers()?;
        let (reply, answer) = oneshot::channel();
        let engine = self.clone();
        thread::Builder::new()
            .name("loader".into())
            .spawn(move || drop(reply.send(replace(&engine, &settings, drain))))
            .map_err(|error| ReplaceError::Loader(format!("cannot be started: {error}")))?;
        answer.await.unwrap_or_else(|_| {
            let what = "has panicked; the journal has its last words".to_owned();
            Err(ReplaceError::Loader(what))
        })
    }
}

/// Runs on the loader's thread.
fn replace(
    engine: &Handle,
    settings: &Settings,
    drain: Duration,
) -> Result<Replaced, ReplaceError> {
    let Handle { shared, queue } = engine;
    let mut next = Recipe::of(settings);
    next.keep_cache_of(shared.recipe().as_ref());
    let step =
        (shared.recipe().as_ref()).map_or(Transition::Load, |recipe| recipe.transition_to(&next));
    match step {
        Transition::Nothing => {
            *shared.recipe() = Some(next);
            Ok(Replaced::Nothing)
        }
        Transition::Mode => {
            let (reply, answer) = oneshot::channel();
            let mode = settings.runner.graph.mode;
            queue.control(Control::SetMode(mode, reply));
            let answer = answer.blocking_recv().map_err(|_| shared.closed())?;
            answer.map_err(ReplaceError::NotSupported)?;
            *shared.recipe() = Some(next);
            Ok(Replaced::GraphMode)
        }
        Transition::Load => {
            let loaded = load(shared, settings);
            shared.publish(|status| {
                if status.state == State::Ready {
                    status.detail.clear();
                }
            });
            let (reply, answer) = oneshot::channel();
            let model = loaded?;
            let replacement = Replacement {
                model,
                due: Instant::now() + drain,
                reply,
            };
            queue.control(Control::Replace(Box::new(replacement)));
            answer.blocking_recv().map_err(|_| shared.closed())??;
            Ok(Replaced::Model)
        }
    }
}

fn load(shared: &Shared, settings: &Settings) -> Result<LoadedModel, ReplaceError> {
    let path = settings.model.display().to_string();
    let report = |loading| {
        // The phase is that of the engine thread, which still answers.
        shared.progress.load_step();
        if let Loading::Read(Some(percent)) = loading {
            shared.publish(|status| {
                // A daemon that stops keeps its own detail.
                if status.state == State::Ready {
                    status.detail = format!("loading {path} {percent}%");
                }
            });
        }
    };
    LoadedModel::load(settings, report).map_err(|error| {
        report::load_error(&error);
        let held = shared.model_bytes();
        match (error.shortage(), error) {
            (Some(shortage), error) if shortage <= held => {
                ReplaceError::NeedsRestart { error, held }
            }
            (Some(_), error) => ReplaceError::Memory(error),
            (None, error) => ReplaceError::Model {
                model: settings.model.clone(),
                error,
            },
        }
    })
}

/// What the engine thread has of the model that answers, besides its runner.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) encoder: Arc<Encoder>,
    /// The runner of the draft model, if there is one.
    pub(crate) draft: Option<Runner>,
    /// `None` if the model sees no images.
    pub(crate) tower: Option<Tower>,
    /// The most bytes of encoded images that stay for later requests.
    pub(crate) cache_bytes: u64,
}

impl Replacement {
    /// Activates the model on the engine thread. Returns what belongs to it, and whether the pages of the cache keep their
    /// content. Returns `None` if the device cannot be used: then the old model stays. `free` frees what else belongs to it.
    pub(crate) fn take_place(
        self,
        receiver: &Receiver,
        runner: &mut Runner,
        free: impl FnOnce(),
    ) -> Option<(Active, bool)> {
        let Self {
            mut model, reply, ..
        } = self;
        let key = model.recipe.key();
        if let Some(draft) = &model.draft
            && let Err(error) = draft.attach_thread()
        {
            drop(reply.send(Err(error.into())));
            return None;
        }
        let taken = if key.is_some() && key == receiver.shared.pages_key() {
            model.runner.inherit(runner)
        } else {
            model.runner.succeed(runner).map(|()| false)
        };
        let keeps = match taken {
            Ok(keeps) => keeps,
            Err(error) => {
                drop(reply.send(Err(error.into())));
                return None;
            }
        };
        let (new, active) = activate(receiver, model);
        // This frees the old model's memory before the caller gets its reply.
        *runner = new;
        free();
        observer::report_graph_events(&receiver.shared, runner);
        drop(reply.send(Ok(())));
        Some((active, keeps))
    }
}

/// Makes a loaded model the one that answers. Returns its runner, and what else the engine thread has of it.
pub(crate) fn activate(receiver: &Receiver, model: LoadedModel) -> (Runner, Active) {
    make_active(receiver, model, None)
}

/// Makes a model that was loaded again the one that answers. If its files and settings are those of before, its encoder stays:
/// then the tokens of earlier turns are still those of this model.
pub(crate) fn activate_again(receiver: &Receiver, model: LoadedModel) -> (Runner, Active) {
    let (before, key) = (receiver.shared.pages_key(), model.recipe.key());
    let encoder = receiver.shared.encoder().clone();
    let stays = encoder.filter(|encoder| {
        key.is_some()
            && key == before
            && encoder.context() == model.runner.context()
            && encoder.sight().is_some() == model.sight.is_some()
    });
    make_active(receiver, model, stays)
}

/// Makes a model active, with the encoder of before if it stays.
fn make_active(
    receiver: &Receiver,
    model: LoadedModel,
    encoder: Option<Arc<Encoder>>,
) -> (Runner, Active) {
    let shared = &receiver.shared;
    observer::publish_graph(shared, &model.runner);
    shared.live.publish(News::Begun);
    shared.publish(|status| model.describe(status));
    let LoadedModel {
        runner,
        draft,
        codec,
        recipe,
        sight,
        ..
    } = model;
    *shared.recipe() = Some(recipe);
    let (sight, tower, cache_bytes) = sight.map_or((None, None, 0), |seen| {
        (Some(seen.sight), Some(seen.tower), seen.cache_bytes)
    });
    let encoder = if let Some(encoder) = encoder {
        receiver.ready_again();
        encoder
    } else {
        receiver.ready_with(codec, runner.context(), sight)
    };
    let active = Active {
        encoder,
        draft,
        tower,
        cache_bytes,
    };
    (runner, active)
}

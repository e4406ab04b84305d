//! Another model in the place of the one that runs: loaded beside it by a thread of its own, put in force between two
//! turns. Until then nothing of the old one changes, whatever fails.
//!
//! The loader makes all of the new engine, on a GPU its memory too, while the engine thread answers; that thread then
//! takes it over in one piece and gives the old one back.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::loaded_model::{LoadedModel, Loading, Recipe, Settings, Transition};
use super::replacement::{ReplaceError, Replaced, Replacement};
use crate::engine::caller::handle::Handle;
use crate::engine::caller::status::State;
use crate::engine::intake::control::Control;
use crate::engine::intake::inbox::Inbox;
use crate::engine::intake::shared::Shared;
use crate::engine::observe::live::News;
use crate::engine::observe::{observer, report};
use crate::engine::prompt::encoder::Encoder;
use crate::runner::Runner;

impl Handle {
    /// Puts other settings in force; returns when they are. A model is loaded only if they, or its files, differ; then those
    /// that run get so long to end with the one from before.
    pub async fn replace(
        &self,
        settings: Settings,
        drain: Duration,
    ) -> Result<Replaced, ReplaceError> {
        self.loaded()?;
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
    next.go_on_from(shared.recipe().as_ref());
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
    let tell = |loading| {
        // What the engine thread works at is its own to tell.
        shared.progress.load_step();
        if let Loading::Read(Some(percent)) = loading {
            shared.publish(|status| {
                // One that stops has other things to tell.
                if status.state == State::Ready {
                    status.detail = format!("loading {path} {percent}%");
                }
            });
        }
    };
    LoadedModel::load(settings, tell).map_err(|error| {
        report::load_error(&error);
        let held = shared.held();
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

impl Replacement {
    /// Puts it in force on the engine's thread, between two turns, and tells whether what the cache holds lives on; `None` if that
    /// cannot be, and all is as before.
    pub(crate) fn take_place(
        self,
        inbox: &Inbox,
        runner: &mut Runner,
    ) -> Option<(Arc<Encoder>, bool)> {
        let Self {
            mut model, reply, ..
        } = self;
        let key = model.recipe.key();
        let taken = if key.is_some() && key == inbox.key() {
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
        let (new, encoder) = put_in_force(inbox, model);
        // The old one's memory is free before anyone hears of the new one.
        *runner = new;
        observer::graph(inbox, runner);
        drop(reply.send(Ok(())));
        Some((encoder, keeps))
    }
}

/// From now on this is the model that answers.
pub(crate) fn put_in_force(inbox: &Inbox, model: LoadedModel) -> (Runner, Arc<Encoder>) {
    observer::publish(inbox, &model.runner);
    inbox.live().tell(News::Begun);
    inbox.publish(|status| model.describe(status));
    let LoadedModel {
        runner,
        codec,
        recipe,
        ..
    } = model;
    *inbox.shared.recipe() = Some(recipe);
    let encoder = inbox.ready(codec, runner.context());
    (runner, encoder)
}

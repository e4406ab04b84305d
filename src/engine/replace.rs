//! Another model in the place of the one that runs: loaded beside it by a thread of its own, put in force between two
//! turns. Until then nothing of the old one changes, whatever fails.
//!
//! The loader makes all of the new engine, on a GPU its memory too, while the engine thread answers; that thread then
//! takes it over in one piece and gives the old one back.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use tokio::sync::oneshot;

use super::encoder::Encoder;
use super::handle::Shared;
use super::load::LoadError;
use super::observe;
use super::queue::Control;
use super::runner::{RunError, Runner};
use super::served::{Loading, Recipe, Served, Settings, Step};
use super::{Handle, Inbox, Refusal, State};

/// What was done to put settings in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// They were.
    Nothing,
    /// Only the mode of the decode graph differed.
    GraphMode,
    /// A model was loaded.
    Model,
}

/// Why the old model stays.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    #[error("{0}")]
    Refused(#[from] Refusal),
    #[error("model.path {}: {error}", model.display())]
    Model { model: PathBuf, error: LoadError },
    #[error(
        "there is no room for the new model beside the one that runs, which holds {} MiB: {error}. A restart makes room \
         for it: systemctl restart gangliond",
        held >> 20
    )]
    NeedsRestart {
        error: LoadError,
        /// Bytes.
        held: u64,
    },
    #[error("{0}. A restart would not make room for it either")]
    Memory(LoadError),
    #[error("the new model was loaded, but its device cannot be used: {0}")]
    Device(#[from] RunError),
    #[error("{0}")]
    NotSupported(String),
    #[error("the thread that loads the model {0}")]
    Loader(String),
}

/// A loaded model on its way to the engine thread.
#[derive(Debug)]
pub struct Replacement {
    served: Served,
    reply: oneshot::Sender<Result<(), ReplaceError>>,
}

impl Handle {
    /// Puts other settings in force; returns when they are. A model is loaded only if they, or its files, differ.
    ///
    /// # Errors
    /// Why the old one stays.
    pub async fn replace(&self, settings: Settings) -> Result<Replaced, ReplaceError> {
        self.loaded()?;
        let (reply, answer) = oneshot::channel();
        let shared = self.shared.clone();
        thread::Builder::new()
            .name("loader".into())
            .spawn(move || drop(reply.send(replace(&shared, &settings))))
            .map_err(|error| ReplaceError::Loader(format!("cannot be started: {error}")))?;
        answer.await.unwrap_or_else(|_| {
            let what = "has panicked; the journal has its last words".to_owned();
            Err(ReplaceError::Loader(what))
        })
    }
}

/// Runs on the loader's thread.
fn replace(shared: &Shared, settings: &Settings) -> Result<Replaced, ReplaceError> {
    let next = Recipe::of(settings);
    let step = (shared.recipe().as_ref()).map_or(Step::Load, |recipe| recipe.step_to(&next));
    match step {
        Step::Nothing => {
            *shared.recipe() = Some(next);
            Ok(Replaced::Nothing)
        }
        Step::Mode => {
            let (reply, answer) = oneshot::channel();
            let mode = settings.runner.graph.mode;
            shared.queue.control(Control::SetMode(mode, reply));
            let answer = answer.blocking_recv().map_err(|_| shared.closed())?;
            answer.map_err(ReplaceError::NotSupported)?;
            *shared.recipe() = Some(next);
            Ok(Replaced::GraphMode)
        }
        Step::Load => {
            let loaded = load(shared, settings);
            shared.publish(|status| {
                if status.state == State::Ready {
                    status.detail.clear();
                }
            });
            let (reply, answer) = oneshot::channel();
            let served = loaded?;
            let replacement = Replacement { served, reply };
            shared
                .queue
                .control(Control::Replace(Box::new(replacement)));
            answer.blocking_recv().map_err(|_| shared.closed())??;
            Ok(Replaced::Model)
        }
    }
}

fn load(shared: &Shared, settings: &Settings) -> Result<Served, ReplaceError> {
    let path = settings.model.display().to_string();
    let tell = |loading| {
        // What the engine thread works at is its own to tell.
        shared.queue.progress.load_step();
        if let Loading::Read(Some(percent)) = loading {
            shared.publish(|status| {
                // One that stops has other things to tell.
                if status.state == State::Ready {
                    status.detail = format!("loading {path} {percent}%");
                }
            });
        }
    };
    Served::load(settings, tell).map_err(|error| {
        observe::load_error(&error);
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
    /// Puts it in force on the engine's thread, between two turns; `None` if that cannot be, and all is as before.
    pub(super) fn take_place(self, inbox: &Inbox, runner: &mut Runner) -> Option<Arc<Encoder>> {
        let Self { mut served, reply } = self;
        if let Err(error) = served.runner.succeed(runner) {
            drop(reply.send(Err(error.into())));
            return None;
        }
        let (new, encoder) = put_in_force(inbox, served);
        // The old one's memory is free before anyone hears of the new one.
        *runner = new;
        observe::graph(inbox, runner);
        drop(reply.send(Ok(())));
        Some(encoder)
    }
}

/// From now on this is the model that answers.
pub(super) fn put_in_force(inbox: &Inbox, served: Served) -> (Runner, Arc<Encoder>) {
    observe::publish(inbox, &served.runner);
    inbox.times().begin();
    inbox.publish(|status| served.describe(status));
    let Served {
        runner,
        codec,
        recipe,
        ..
    } = served;
    *inbox.shared.recipe() = Some(recipe);
    let encoder = inbox.ready(codec, runner.context());
    (runner, encoder)
}

//! Opens a draft model, and plans it next to the model whose tokens it guesses.
//!
//! Both are admitted together, so that neither is loaded without the other. The guesses are made by `engine`. An assistant is
//! a part of its model's plan: it has no cache, and guesses as the model's own head does.

use std::path::{Path, PathBuf};

use super::assistant::OpenAssistant;
use super::error::LoadError;
use super::head::Head;
use super::kv_choice::{KvChoice, KvChoices};
use super::kv_memory::KvMemory;
use super::open_model::OpenModel;
use super::plan::{plan, settle_run};
use super::settings::{Backend, Settings, TowerNeeds};
use crate::cpu;
#[cfg(feature = "cuda")]
use crate::cuda;
use crate::executor::MemoryEstimate;
use crate::kv::Reuse;
use crate::model::forward::Forward;
use crate::model::{Checkpoint, Language};
use crate::tape::{Ending, Input, KvInfo, STEP_ROWS, Tape};

/// The most rows of a prompt that a draft model reads at once. More would need more memory, and delay steps longer.
const CHUNK: usize = 256;

/// The draft model or the assistant of the settings. Its weights are not loaded.
#[derive(Debug)]
pub enum OpenDraft {
    /// A model with a runner of its own.
    Model(DraftModel),
    /// An assistant, which guesses as the head of its model.
    Assistant(Box<OpenAssistant>),
}

/// A draft model with the vocabulary of its model.
#[derive(Debug)]
pub struct DraftModel {
    pub(super) path: PathBuf,
    /// The model that it is opened for.
    model: PathBuf,
    pub(super) checkpoint: Box<Checkpoint>,
}

/// Opens the draft model that the settings name, and checks that it has the vocabulary of the model. The plan of the model
/// checks whether an assistant fits it.
///
/// # Errors
/// If its files cannot be served, or it does not fit the model.
pub fn open_draft(
    model: &Path,
    language: &Language,
    settings: &Settings,
) -> Result<Option<OpenDraft>, LoadError> {
    let Some(path) = &settings.draft else {
        return Ok(None);
    };
    if let Some(assistant) = OpenAssistant::open(path, model)? {
        return Ok(Some(OpenDraft::Assistant(Box::new(assistant))));
    }
    let opened = OpenModel::read(path, None).map_err(|error| of_draft(path, error))?;
    if let Some(difference) = language.difference(&opened.language) {
        return Err(LoadError::DraftVocabulary {
            model: model.to_owned(),
            draft: path.clone(),
            difference: Box::new(difference),
        });
    }
    let draft = DraftModel::of(path, model, opened.checkpoint)?;
    Ok(Some(OpenDraft::Model(draft)))
}

fn of_draft(path: &Path, error: LoadError) -> LoadError {
    LoadError::Draft {
        draft: path.to_owned(),
        error: Box::new(error),
    }
}

impl OpenDraft {
    /// Opens the draft model that the settings name, without its vocabulary: for tools that only count its memory.
    ///
    /// # Errors
    /// If its files cannot be read, or it has recurrent layers.
    pub fn unchecked(model: &Path, settings: &Settings) -> Result<Option<Self>, LoadError> {
        let Some(path) = &settings.draft else {
            return Ok(None);
        };
        if let Some(assistant) = OpenAssistant::open(path, model)? {
            return Ok(Some(Self::Assistant(Box::new(assistant))));
        }
        let checkpoint = Checkpoint::open(path).map_err(|error| of_draft(path, error.into()))?;
        Ok(Some(Self::Model(DraftModel::of(path, model, checkpoint)?)))
    }

    /// Returns the file or directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Model(model) => &model.path,
            Self::Assistant(assistant) => &assistant.path,
        }
    }

    /// Returns the model that has a runner of its own.
    pub(super) const fn model(&self) -> Option<&DraftModel> {
        match self {
            Self::Model(model) => Some(model),
            Self::Assistant(_) => None,
        }
    }

    /// Returns the assistant.
    #[must_use]
    pub fn assistant(&self) -> Option<&OpenAssistant> {
        match self {
            Self::Model(_) => None,
            Self::Assistant(assistant) => Some(assistant),
        }
    }

    /// Plans a draft model, if there is one, next to a model on the CPU.
    pub(super) fn planned(
        draft: Option<&Self>,
        settings: &Settings,
        model: &Forward,
    ) -> Result<Option<DraftPlan>, LoadError> {
        let draft = draft.and_then(Self::model);
        draft
            .map(|draft| draft.plan(settings, model.kv))
            .transpose()
    }

    /// Plans a draft model, if there is one, next to a model on a GPU.
    #[cfg(feature = "cuda")]
    pub(super) fn planned_on_gpu(
        draft: Option<&Self>,
        settings: &Settings,
        model: &Forward,
    ) -> Result<Option<DraftPlan>, LoadError> {
        let mut planned = Self::planned(draft, settings, model)?;
        if let Some(planned) = &mut planned {
            planned.forward.activation = settings.cuda.activations;
        }
        Ok(planned)
    }
}

impl DraftModel {
    /// Wrong guesses are undone by overwriting their positions, and a recurrent state has none.
    fn of(path: &Path, model: &Path, checkpoint: Checkpoint) -> Result<Self, LoadError> {
        if checkpoint.shape.is_recurrent() {
            return Err(LoadError::DraftRecurrent {
                draft: path.to_owned(),
            });
        }
        Ok(Self {
            path: path.to_owned(),
            model: model.to_owned(),
            checkpoint: Box::new(checkpoint),
        })
    }

    fn plan(&self, settings: &Settings, kv: KvInfo) -> Result<DraftPlan, LoadError> {
        let settings = Settings {
            tower: TowerNeeds::default(),
            kv_type: KvChoices {
                k: KvChoice::F16,
                v: KvChoice::F16,
            },
            probe: Vec::new(),
            context: kv.context,
            shortens: true,
            kv_memory: KvMemory::Conversations(1),
            // Its bits decide nothing.
            reuse: Reuse::Fast,
            prefill_chunk: settings.prefill_chunk.clamp(1, CHUNK),
            head: Head::Off,
            draft: None,
            observer: None,
            ..settings.clone()
        };
        let of_this = |error| of_draft(&self.path, error);
        let (mut forward, _) = plan(&self.checkpoint, None, &settings).map_err(of_this)?;
        settle_run(&mut forward, &settings).map_err(of_this)?;
        let step = forward.tape(1, Input::Step, Ending::Token);
        step.check().map_err(|error| of_this(error.into()))?;
        Ok(DraftPlan {
            path: self.path.clone(),
            model: self.model.clone(),
            forward,
            settings,
        })
    }
}

/// What a draft model computes, and how it is loaded.
#[derive(Clone, Debug)]
pub(crate) struct DraftPlan {
    pub(super) path: PathBuf,
    /// The model that it is planned for.
    pub(super) model: PathBuf,
    forward: Forward,
    pub(super) settings: Settings,
}

impl DraftPlan {
    /// Returns the number of pages with which it holds the positions that the model's cache holds, if it can see as many.
    pub(super) fn pages(&self, model: KvInfo) -> usize {
        let (own, each) = (self.cache(model).pages_each(), model.pages_each().max(1));
        (own * model.pages).div_ceil(each).max(1)
    }

    /// Returns its cache for conversations that are no longer than those of a model.
    fn cache(&self, model: KvInfo) -> KvInfo {
        let own = self.forward.kv;
        KvInfo {
            context: own.context.min(model.context),
            ..own
        }
    }

    /// Returns the memory that it needs on the CPU next to a model with a cache.
    pub(super) fn on_cpu(&self, model: KvInfo) -> MemoryEstimate {
        let [prompt, step] = self.tapes(model);
        cpu::memory_estimate(&[&prompt, &step], self.settings.threads)
    }

    /// Returns the memory that it needs on a GPU next to a model with a cache; `None` if a buffer would be too large.
    #[cfg(feature = "cuda")]
    pub(super) fn on_gpu(&self, model: KvInfo, integrated: bool) -> Option<MemoryEstimate> {
        let [prompt, step] = self.tapes(model);
        let chunk = self.settings.prefill_chunk;
        cuda::memory_estimate(&[&prompt, &step], chunk, integrated).ok()
    }

    /// Refuses operations that a GPU does not compute.
    #[cfg(feature = "cuda")]
    pub(super) fn suits_gpu(&self, model: KvInfo) -> Result<(), LoadError> {
        for tape in &self.tapes(model) {
            cuda::suits(tape).map_err(|error| of_draft(&self.path, error.into()))?;
        }
        Ok(())
    }

    /// Returns the tapes that decide the memory of activations.
    fn tapes(&self, model: KvInfo) -> [Tape; 2] {
        let kv = KvInfo {
            pages: self.pages(model),
            ..self.cache(model)
        };
        let forward = Forward {
            kv,
            ..self.forward.clone()
        };
        let rows = self.settings.rows.clamp(1, STEP_ROWS);
        [
            forward.tape(self.settings.prefill_chunk, Input::Prompt, Ending::Token),
            forward.tape(rows.next_power_of_two(), Input::Step, Ending::Token),
        ]
    }

    /// Returns the settings of its load on the backend that runs the model.
    pub(super) fn settings_on(&self, backend: Backend) -> Settings {
        let mut settings = self.settings.clone();
        settings.backend = backend;
        settings.graph.record_at_start = false;
        settings.graph.refuse_launches = 0;
        settings
    }
}

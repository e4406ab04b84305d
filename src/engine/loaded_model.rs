//! A model that is loaded: its runner, its language, and what is told of it. Made from settings by whatever thread;
//! who waits for it is not known here.

use std::path::PathBuf;

use super::kv_selection::PROBE;
use super::load_error::LoadError;
use super::open_model::OpenModel;
use super::runner::{self, Runner};
use super::{Codec, ModelInfo, Phase, Status, recommended};
use crate::graph::Mode;
use crate::journal;
use crate::kv::KvTypes;
use crate::kv_store::Key;
use crate::model::checkpoint::Identity;

/// What to load and how to run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A `.gguf` file or a safetensors directory.
    pub model: PathBuf,
    /// The file of a chat template that takes the place of the model's own.
    pub chat_template: Option<PathBuf>,
    pub runner: runner::Settings,
}

/// What a model was made from.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    settings: Settings,
    /// `None` if its files could not be looked at.
    files: Option<Identity>,
    /// Those of the cache, once they are selected.
    types: Option<KvTypes>,
}

/// What it takes to put other settings in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transition {
    Nothing,
    /// The decode graph is recorded in another way.
    Mode,
    Load,
}

fn files(settings: &Settings) -> std::io::Result<Identity> {
    let files = Identity::of(&settings.model)?;
    match &settings.chat_template {
        Some(file) => files.with(file),
        None => Ok(files),
    }
}

impl Recipe {
    pub(super) fn of(settings: &Settings) -> Self {
        Self {
            files: files(settings).ok(),
            settings: settings.clone(),
            types: None,
        }
    }

    /// What pages of a cache depend on besides what computes them; `None` where nobody knows the model's files. What a model's
    /// tokens mean, and how its conversations are written, is in these files.
    pub(super) fn key(&self) -> Option<Key> {
        let runner = &self.settings.runner;
        let key = Key::default()
            .with("gangliond", env!("CARGO_PKG_VERSION"))
            .with("model", self.files.as_ref()?)
            .with("type of the cache", self.types?.name())
            .with("reuse", format_args!("{:?}", runner.reuse))
            .with("activations", format_args!("{:?}", runner.cuda.activations));
        Some(key)
    }

    /// Takes the place of `before`, whose model goes on.
    pub(super) fn go_on_from(&mut self, before: Option<&Self>) {
        self.types = before.and_then(|before| before.types);
    }

    /// What it takes to get from these settings to `next`.
    pub(super) fn transition_to(&self, next: &Self) -> Transition {
        let (is, to_be) = (&self.settings.runner, &next.settings.runner);
        let mut alike = next.settings.clone();
        // Asked only while a model is loaded: it counts for the next one.
        alike.runner.reserve = is.reserve;
        alike.runner.graph.mode = is.graph.mode;
        let replaced = self.files.is_none() || self.files != next.files;
        if replaced || self.settings != alike {
            Transition::Load
        } else if is.graph.mode == to_be.graph.mode {
            Transition::Nothing
        } else if to_be.graph.mode == Mode::Full && to_be.graph.record_at_start {
            // No request is to pay for a recording: all is recorded before the first.
            Transition::Load
        } else {
            Transition::Mode
        }
    }
}

/// How a load gets on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Loading {
    Begins(Phase),
    /// Some of the weights; the percentage if people should hear of it.
    Read(Option<u64>),
}

/// A loaded model, in force or not yet.
#[derive(Debug)]
pub(super) struct LoadedModel {
    pub(super) runner: Runner,
    pub(super) codec: Codec,
    pub(super) recipe: Recipe,
    info: ModelInfo,
}

impl LoadedModel {
    /// Loads it; `tell` hears how that gets on.
    pub(super) fn load(
        settings: &Settings,
        mut tell: impl FnMut(Loading),
    ) -> Result<Self, LoadError> {
        let mut recipe = Recipe::of(settings);
        let OpenModel {
            checkpoint,
            language,
        } = OpenModel::read_in_phases(
            &settings.model,
            settings.chat_template.as_deref(),
            |phase| {
                tell(Loading::Begins(phase));
            },
        )?;
        for note in language.notes() {
            journal::tokenizer_skips(&settings.model.display().to_string(), note);
        }
        tell(Loading::Begins(Phase::Weights));
        let mut shown = 0;
        let measured = runner::Settings {
            probe: language.encode_plain(PROBE),
            ..settings.runner.clone()
        };
        let runner = Runner::load(&checkpoint, &measured, &mut |done, total| {
            if done >= total {
                // What comes after the last weight: the first steps' memory, and recordings.
                tell(Loading::Begins(Phase::Preparing));
            }
            let percent = done * 100 / total.max(1);
            let more = percent >= shown + 5;
            if more {
                shown = percent;
            }
            tell(Loading::Read(more.then_some(percent)));
        })?;
        let selection = runner.kv_selection();
        recipe.types = Some(selection.types);
        let shape = runner.shape();
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let (sampling, unused) = recommended::read(&checkpoint.sampling);
        for setting in unused {
            journal::sampling_unused(&checkpoint.name, &setting);
        }
        let info = ModelInfo {
            name: checkpoint.name.clone(),
            architecture: shape.architecture.to_owned(),
            path: settings.model.display().to_string(),
            layers: count(shape.layers),
            hidden: count(shape.hidden),
            vocabulary: count(shape.vocabulary),
            context: count(runner.context()),
            pages: count(runner.pages()[0]),
            kv: Some(selection),
            weight_bytes: checkpoint.weight_bytes(),
            parameters: checkpoint.parameters(),
            quantization: checkpoint.quantization(),
            trained_context: count(shape.context),
            thinking: language.can_think(),
            // The formats of calls are not known here.
            tools: String::new(),
            template: language.template_origin().to_owned(),
            sampling,
        };
        Ok(Self {
            runner,
            codec: Codec::Model(language),
            recipe,
            info,
        })
    }

    /// What everyone is told of it.
    pub(super) fn describe(&self, status: &mut Status) {
        status.model = self.info.clone();
        status.backend = self.runner.backend().into();
        status.device = self.runner.description().into();
        status.memory = self.runner.memory();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_loaded_only_for_what_needs_it() {
        let model = tempfile::NamedTempFile::new().unwrap();
        let settings = |change: fn(&mut runner::Settings)| {
            let mut runner = runner::Settings::default();
            change(&mut runner);
            let model = model.path().to_owned();
            Settings {
                model,
                chat_template: None,
                runner,
            }
        };
        let step = |from: fn(&mut runner::Settings), to: fn(&mut runner::Settings)| {
            Recipe::of(&settings(from)).transition_to(&Recipe::of(&settings(to)))
        };
        assert_eq!(step(|_| (), |_| ()), Transition::Nothing);
        assert_eq!(step(|_| (), |to| to.reserve += 1), Transition::Nothing);
        let another = step(|_| (), |to| to.kv_memory = runner::KvMemory::Auto);
        assert_eq!(another, Transition::Load);
        assert_eq!(
            step(|_| (), |to| to.graph.mode = Mode::Full),
            Transition::Mode
        );

        let recorded = |to: &mut runner::Settings| {
            to.graph.mode = Mode::Full;
            to.graph.record_at_start = true;
        };
        let segments = |to: &mut runner::Settings| {
            to.graph.mode = Mode::Piecewise;
            to.graph.record_at_start = true;
        };
        assert_eq!(step(segments, recorded), Transition::Load);
        assert_eq!(step(recorded, segments), Transition::Mode);
    }
}

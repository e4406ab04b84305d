//! A loaded model: its runner, its language, and its description for the status. Any thread can load one.

use std::path::PathBuf;
use std::sync::Arc;

use crate::engine::caller::status::{ModelInfo, Status};
use crate::engine::observe::progress::Phase;
use crate::engine::picture::sight::Sight;
use crate::engine::prompt::codec::Codec;
use crate::executor::ImageError;
use crate::graph::Mode;
use crate::journal;
use crate::kv::KvTypes;
use crate::kv_store::Key;
use crate::load::{
    self, FoundTower, Head, LoadError, Loaded, OpenModel, OpenPart, OpenTower, PROBE, TowerFile,
};
use crate::model::Checkpoint;
use crate::model::checkpoint::Identity;
use crate::runner::{RetiredRunner, RunError, Runner, Tower};

/// What to load and how to run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A `.gguf` file or a safetensors directory.
    pub model: PathBuf,
    /// A file with a chat template that replaces the model's own.
    pub chat_template: Option<PathBuf>,
    pub runner: load::Settings,
}

/// The settings and files that a model was loaded from.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    settings: Settings,
    /// `None` if the files could not be read.
    files: Option<Identity>,
    /// The files that may be its tower, as far as they could be read.
    towers: Vec<Identity>,
    /// The files of its draft model, if the settings name one, as far as they could be read.
    draft: Option<Identity>,
    /// Whether its files have a head that guesses tokens, once they were read.
    has_head: Option<bool>,
    /// Whether an assistant guesses in place of a head.
    has_assistant: bool,
    /// The file of its tower, if it is loaded with one from outside of its own files.
    tower: Option<Identity>,
    /// The types of the cache, and the hash of the angles of its rotation, once they are selected.
    cache: Option<(KvTypes, u64)>,
}

/// What must be done to apply other settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transition {
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

/// Returns the identities of the files that may be a model's tower, besides its own files.
fn towers(settings: &Settings) -> Vec<Identity> {
    let candidates = settings.runner.vision.tower.candidates(&settings.model);
    let others = candidates.iter().filter(|path| **path != settings.model);
    others.filter_map(|path| Identity::of(path).ok()).collect()
}

/// Returns the identity of a model's draft model.
fn draft(settings: &Settings) -> Option<Identity> {
    Identity::of(settings.runner.draft.as_deref()?).ok()
}

impl Recipe {
    pub(crate) fn of(settings: &Settings) -> Self {
        Self {
            files: files(settings).ok(),
            towers: towers(settings),
            draft: draft(settings),
            has_head: None,
            has_assistant: false,
            tower: None,
            settings: settings.clone(),
            cache: None,
        }
    }

    /// Returns what to load, and how to run it.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the key of what the content of pages depends on, besides the executor; `None` if the files are unknown. The
    /// files include the vocabulary and the chat template.
    pub(crate) fn key(&self) -> Option<Key> {
        let runner = &self.settings.runner;
        let (types, angles) = self.cache?;
        let key = Key::default()
            .with("gangliond", env!("CARGO_PKG_VERSION"))
            .with("model", self.files.as_ref()?)
            .with("type of the cache", types.name())
            .with("angles", format_args!("{angles:016x}"))
            .with("reuse", format_args!("{:?}", runner.reuse))
            .with("activations", format_args!("{:?}", runner.cuda.activations));
        let key = match &self.tower {
            Some(tower) => key.with("tower", tower),
            None => key,
        };
        // The cache then has a layer more.
        let has_head = self.has_head == Some(true) && runner.head.loads() && !self.has_assistant;
        Some(if has_head {
            key.with("head", "loaded")
        } else {
            key
        })
    }

    /// Takes over the properties of the cache of `before`, whose model stays.
    pub(crate) fn keep_cache_of(&mut self, before: Option<&Self>) {
        self.cache = before.and_then(|before| before.cache);
        self.tower = before.and_then(|before| before.tower.clone());
        self.has_head = before.and_then(|before| before.has_head);
        self.has_assistant = before.is_some_and(|before| before.has_assistant);
    }

    /// Whether the model must be loaded to get to another setting of its head.
    fn changes_head(&self, to_be: Head) -> bool {
        let is = self.settings.runner.head;
        match self.has_head {
            // It is loaded with any setting.
            _ if self.has_assistant => false,
            Some(true) => is.loads() != to_be.loads(),
            // A load refuses a model without the head that it needs.
            Some(false) => to_be == Head::Required,
            None => is != to_be,
        }
    }

    /// Returns what must be done to get from these settings to `next`.
    pub(crate) fn transition_to(&self, next: &Self) -> Transition {
        let (is, to_be) = (&self.settings.runner, &next.settings.runner);
        let mut alike = next.settings.clone();
        // The reserve only matters while a model is loaded.
        alike.runner.reserve = is.reserve;
        alike.runner.graph.mode = is.graph.mode;
        if !self.changes_head(to_be.head) {
            alike.runner.head = is.head;
        }
        let replaced = self.files.is_none()
            || self.files != next.files
            || self.towers != next.towers
            || self.draft != next.draft;
        if replaced || self.settings != alike {
            Transition::Load
        } else if is.graph.mode == to_be.graph.mode {
            Transition::Nothing
        } else if to_be.graph.mode == Mode::Full && to_be.graph.record_at_start {
            // All is recorded before the first request, so that no request waits for a recording.
            Transition::Load
        } else {
            Transition::Mode
        }
    }
}

/// The progress of a load.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loading {
    Begins(Phase),
    /// Some of the weights were read. There is a percentage if it is worth publishing.
    Read(Option<u64>),
}

/// A loaded model, active or not yet.
#[derive(Debug)]
pub(crate) struct LoadedModel {
    pub(crate) runner: Runner,
    /// `None` if the model has no draft model.
    pub(crate) draft: Option<Runner>,
    pub(crate) codec: Codec,
    pub(crate) recipe: Recipe,
    /// `None` if the model sees no images.
    pub(crate) sight: Option<LoadedSight>,
    info: ModelInfo,
}

/// How a loaded model sees images.
#[derive(Debug)]
pub(crate) struct LoadedSight {
    pub(crate) sight: Arc<Sight>,
    pub(crate) tower: Tower,
    /// The most bytes of encoded images that stay for later requests.
    pub(crate) cache_bytes: u64,
}

impl LoadedModel {
    /// Loads a model, and calls `report` with the progress.
    pub(crate) fn load(
        settings: &Settings,
        report: impl FnMut(Loading),
    ) -> Result<Self, LoadError> {
        Self::load_after(settings, None, report)
    }

    /// Loads a model, as `load`, on the thread of a retired runner, which the new runner can resume.
    pub(crate) fn load_after(
        settings: &Settings,
        retired: Option<&mut RetiredRunner>,
        mut report: impl FnMut(Loading),
    ) -> Result<Self, LoadError> {
        let mut recipe = Recipe::of(settings);
        let OpenModel {
            checkpoint,
            language,
        } = OpenModel::read_in_parts(&settings.model, settings.chat_template.as_deref(), |part| {
            report(Loading::Begins(match part {
                OpenPart::Checkpoint => Phase::Opening,
                OpenPart::Language => Phase::Vocabulary,
            }));
        })?;
        for note in language.notes() {
            journal::tokenizer_skips(&settings.model.display().to_string(), note);
        }
        let tower = find_tower(settings, &checkpoint)?;
        let draft = load::open_draft(&settings.model, &language, &settings.runner)?;
        report(Loading::Begins(Phase::Weights));
        let mut shown = 0;
        let measured = load::Settings {
            probe: language.encode_plain(PROBE),
            tower: tower.as_ref().map(OpenTower::needs).unwrap_or_default(),
            ..settings.runner.clone()
        };
        let draft = draft.as_ref();
        let path_of_draft = draft.map(|draft| draft.path().display().to_string());
        let path_of_draft = path_of_draft.unwrap_or_default();
        let loaded = load::runner_with_draft(
            &checkpoint,
            &measured,
            draft,
            retired,
            &mut |done, total| {
                if done >= total {
                    // After the last weight come the memory of the first steps, and recordings.
                    report(Loading::Begins(Phase::Preparing));
                }
                let percent = done * 100 / total.max(1);
                let more = percent >= shown + 5;
                if more {
                    shown = percent;
                }
                report(Loading::Read(more.then_some(percent)));
            },
        )?;
        let Loaded { mut runner, draft } = loaded;
        let sight = match tower {
            Some(tower) => load_tower(settings, tower, &mut runner, &mut recipe, &mut report)?,
            None => None,
        };
        let selection = runner.kv_selection();
        let shape = runner.shape();
        recipe.cache = Some((selection.types, shape.angles_hash()));
        recipe.has_head = Some(matches!(checkpoint.guess, Ok(Some(_))));
        recipe.has_assistant = runner.has_assistant();
        if let (true, Err(defect)) = (settings.runner.head.loads(), &checkpoint.guess) {
            journal::head_skipped(&checkpoint.name, &defect.to_string());
        }
        if runner.has_head() && checkpoint.guess_layers > 1 {
            journal::head_layers(&checkpoint.name, checkpoint.guess_layers);
        }
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let (sampling, unused) = load::sampling(&checkpoint.sampling);
        for setting in unused {
            journal::sampling_unused(&checkpoint.name, &setting);
        }
        let info = ModelInfo {
            name: checkpoint.name.clone(),
            architecture: shape.architecture.to_owned(),
            path: settings.model.display().to_string(),
            layers: count(shape.layers.len()),
            hidden: count(shape.hidden),
            vocabulary: count(shape.vocabulary),
            context: count(runner.context()),
            pages: count(runner.pages()[0]),
            layout: runner.layout(),
            kv: Some(selection),
            weight_bytes: checkpoint.weight_bytes(),
            parameters: checkpoint.parameters(),
            quantization: checkpoint.quantization(),
            trained_context: count(shape.context),
            thinking: language.can_think(),
            images: sight.is_some(),
            draft: path_of_draft,
            head: runner.has_head(),
            // The encoder sets it.
            tools: String::new(),
            template: language.template_origin().to_owned(),
            sampling,
        };
        Ok(Self {
            runner,
            draft,
            codec: Codec::Model(language),
            recipe,
            sight,
            info,
        })
    }

    /// Writes its description to the status.
    pub(crate) fn describe(&self, status: &mut Status) {
        status.model = self.info.clone();
        status.backend = self.runner.backend().into();
        status.device = self.runner.description().into();
        status.memory = self.runner.memory();
        if let Some(seen) = &self.sight {
            let [weights, reserved] = seen.tower.memory();
            status.memory.weights += weights;
            status.memory.activations += reserved;
        }
        if let Some(draft) = &self.draft {
            status.memory = status.memory.with(draft.memory());
        }
    }
}

/// Opens the tower of a model, if it has one.
fn find_tower(
    settings: &Settings,
    checkpoint: &Checkpoint,
) -> Result<Option<OpenTower>, LoadError> {
    let FoundTower { tower, skipped } =
        load::open_tower(&settings.model, checkpoint, &settings.runner)?;
    for (path, why) in skipped {
        journal::tower_skipped(&path.display().to_string(), &why);
    }
    Ok(tower)
}

/// Loads the tower of a model. Returns `None` if the backend takes no images, and the settings name no tower.
fn load_tower(
    settings: &Settings,
    tower: OpenTower,
    runner: &mut Runner,
    recipe: &mut Recipe,
    report: &mut impl FnMut(Loading),
) -> Result<Option<LoadedSight>, LoadError> {
    let vision = &settings.runner.vision;
    if !runner.takes_images() {
        if let TowerFile::Named(_) = vision.tower {
            return Err(RunError::from(ImageError::Unsupported).into());
        }
        let why = ImageError::Unsupported.to_string();
        journal::tower_skipped(&tower.path.display().to_string(), &why);
        return Ok(None);
    }
    runner.reserve_images()?;
    let loaded = tower.load(&settings.runner, &mut |_, _| report(Loading::Read(None)))?;
    if tower.path != settings.model {
        recipe.tower = Identity::of(&tower.path).ok();
    }
    let sight = Sight {
        most_patches: loaded.most_patches(),
        processor: tower.processor,
        max_tokens: u64::from(vision.max_tokens),
    };
    Ok(Some(LoadedSight {
        sight: Arc::new(sight),
        tower: loaded,
        cache_bytes: vision.cache,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_loaded_only_for_what_needs_it() {
        let model = tempfile::NamedTempFile::new().unwrap();
        let settings = |change: fn(&mut load::Settings)| {
            let mut runner = load::Settings::default();
            change(&mut runner);
            let model = model.path().to_owned();
            Settings {
                model,
                chat_template: None,
                runner,
            }
        };
        let step = |from: fn(&mut load::Settings), to: fn(&mut load::Settings)| {
            Recipe::of(&settings(from)).transition_to(&Recipe::of(&settings(to)))
        };
        assert_eq!(step(|_| (), |_| ()), Transition::Nothing);
        assert_eq!(step(|_| (), |to| to.reserve += 1), Transition::Nothing);
        let another = step(|_| (), |to| to.kv_memory = load::KvMemory::Auto);
        assert_eq!(another, Transition::Load);
        assert_eq!(
            step(|_| (), |to| to.graph.mode = Mode::Full),
            Transition::Mode
        );

        // A model is loaded again only if its head is added, removed, or missing.
        let heads = |has_head, from, to| {
            let mut is = Recipe::of(&settings(|_| ()));
            (is.has_head, is.settings.runner.head) = (has_head, from);
            let mut next = is.clone();
            next.settings.runner.head = to;
            is.transition_to(&next)
        };
        let (off, on, needed) = (Head::Off, Head::IfPresent, Head::Required);
        assert_eq!(heads(Some(false), off, on), Transition::Nothing);
        assert_eq!(heads(Some(false), on, off), Transition::Nothing);
        assert_eq!(heads(Some(false), on, needed), Transition::Load);
        assert_eq!(heads(Some(true), on, needed), Transition::Nothing);
        assert_eq!(heads(Some(true), off, on), Transition::Load);
        assert_eq!(heads(Some(true), needed, off), Transition::Load);
        // An assistant is loaded with any setting.
        let mut assisted = Recipe::of(&settings(|_| ()));
        (assisted.has_head, assisted.has_assistant) = (Some(false), true);
        let mut next = assisted.clone();
        next.settings.runner.head = needed;
        assert_eq!(assisted.transition_to(&next), Transition::Nothing);

        let recorded = |to: &mut load::Settings| {
            to.graph.mode = Mode::Full;
            to.graph.record_at_start = true;
        };
        let segments = |to: &mut load::Settings| {
            to.graph.mode = Mode::Piecewise;
            to.graph.record_at_start = true;
        };
        assert_eq!(step(segments, recorded), Transition::Load);
        assert_eq!(step(recorded, segments), Transition::Mode);
    }
}

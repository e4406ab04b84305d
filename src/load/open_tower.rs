//! Finds the vision tower of a model, checks that both fit, and states what the tower needs.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::LoadError;
use super::settings::{Settings, TowerNeeds};
use super::tower;
use super::tower_file::{self, TowerFile};
use super::tower_mismatch::TowerMismatch;
use crate::executor::MemoryEstimate;
use crate::model::tower::TowerShape;
use crate::model::tower::shape::Positions;
use crate::model::{Checkpoint, TowerCheckpoint};
use crate::runner::Tower;
use crate::vision::{self, Limits, Processor, Published, Rule};

/// A vision tower that fits a model. Its weights are not loaded.
#[derive(Debug)]
pub struct OpenTower {
    /// The mmproj file, or the folder of the model.
    pub path: PathBuf,
    pub processor: Processor,
    checkpoint: TowerCheckpoint,
    /// The most patches of one tile.
    pub most_patches: usize,
    needs: TowerNeeds,
}

/// The tower of a model, and why other files are not.
#[derive(Debug, Default)]
pub struct FoundTower {
    pub tower: Option<OpenTower>,
    pub skipped: Vec<(PathBuf, String)>,
}

/// Finds and opens the tower of a model, as the settings say.
///
/// # Errors
/// If a tower that the settings name cannot be used, or several towers next to the model fit it equally.
pub fn open_tower(
    model: &Path,
    checkpoint: &Checkpoint,
    settings: &Settings,
) -> Result<FoundTower, LoadError> {
    let mut found = FoundTower::default();
    if settings.vision.max_tokens == 0 {
        return Ok(found);
    }
    let is_named = matches!(settings.vision.tower, TowerFile::Named(_));
    for path in settings.vision.tower.candidates(model) {
        let opened = open(&path, checkpoint, settings);
        match (opened, &found.tower) {
            // A model of text.
            (Ok(None), _) if !is_named => {}
            (Ok(None), _) => {
                let mismatch = TowerMismatch::Missing;
                return Err(LoadError::Unfit { path, mismatch });
            }
            (Ok(Some(opened)), None) => found.tower = Some(opened),
            (Ok(Some(_)), Some(first)) => {
                if !tower_file::is_clear(model, &first.path, &path) {
                    let first = first.path.clone();
                    return Err(LoadError::Towers {
                        first,
                        second: path,
                    });
                }
                break;
            }
            (Err(error), _) if is_named => return Err(error),
            (Err(error), _) => found.skipped.push((path, error.to_string())),
        }
    }
    Ok(found)
}

/// Returns the settings with what the model needs because it sees images, for `admit`.
///
/// # Errors
/// As `open_tower`.
pub fn with_tower(
    model: &Path,
    checkpoint: &Checkpoint,
    settings: Settings,
) -> Result<Settings, LoadError> {
    let found = open_tower(model, checkpoint, &settings)?.tower;
    let tower = found.as_ref().map(OpenTower::needs).unwrap_or_default();
    Ok(Settings { tower, ..settings })
}

fn open(
    path: &Path,
    checkpoint: &Checkpoint,
    settings: &Settings,
) -> Result<Option<OpenTower>, LoadError> {
    let opened = TowerCheckpoint::open(path).map_err(|error| LoadError::Vision {
        path: path.to_owned(),
        error: Box::new(error),
    });
    let Some(tower) = opened? else {
        return Ok(None);
    };
    let unfit = |mismatch| LoadError::Unfit {
        path: path.to_owned(),
        mismatch,
    };
    let shape = &tower.shape;
    check(shape, checkpoint).map_err(unfit)?;
    let read = if path.is_dir() {
        published(path)
    } else {
        Ok(usual(shape))
    };
    let processor = read.map_err(unfit)?;
    check_processor(shape, &processor).map_err(unfit)?;
    let processor = Processor::new(processor)
        .map_err(|error| unfit(TowerMismatch::Settings(error.to_string())))?;
    let most = settings.vision.max_tokens;
    let tokens = processor.settings().most_tile_tokens(u64::from(most));
    let tokens = usize::try_from(tokens).unwrap_or(usize::MAX);
    let side = shape.projector.side;
    let most_patches = tokens.saturating_mul(side * side);
    let layers = 1 + checkpoint.shape.images.deepstack;
    // An image from its bytes to its embeddings, which are not in the cache yet.
    let image = most as usize * checkpoint.shape.hidden * layers * size_of::<f32>();
    let received = Limits::of_pixels(settings.vision.max_pixels);
    let image = image as u64 + received.memory() + processor.most_memory(u64::from(most));
    let with_images = |tower: MemoryEstimate| MemoryEstimate {
        activations: tower.activations + settings.vision.cache + image,
        ..tower
    };
    let rows = if checkpoint.shape.images.is_joined() {
        tokens
    } else {
        0
    };
    let needs = TowerNeeds {
        on_cpu: with_images(tower::tower_memory(&tower, settings, most_patches)),
        #[cfg(feature = "cuda")]
        on_gpu: tower::tower_memory_on_cuda(&tower, settings, most_patches, true)
            .ok()
            .map(with_images),
        rows,
    };
    Ok(Some(OpenTower {
        path: path.to_owned(),
        processor,
        checkpoint: tower,
        most_patches,
        needs,
    }))
}

impl OpenTower {
    /// Returns what the model needs besides its own memory.
    #[must_use]
    pub fn needs(&self) -> TowerNeeds {
        self.needs
    }

    /// Loads the tower. `progress` is called with the bytes read so far and in all.
    ///
    /// # Errors
    /// As `load::tower`.
    pub fn load(
        &self,
        settings: &Settings,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Tower, LoadError> {
        tower::tower(&self.checkpoint, settings, self.most_patches, progress)
    }
}

/// The language models of each family of towers.
const MODELS: [(&str, &[&str]); 5] = [
    ("qwen3_vl", &["qwen3_vl", "qwen3_5"]),
    ("gemma3", &["gemma3"]),
    ("gemma4", &["gemma4"]),
    ("idefics3", &["llama"]),
    ("lfm2_vl", &["lfm2"]),
];

/// Checks that a model can read what a tower makes.
fn check(shape: &TowerShape, checkpoint: &Checkpoint) -> Result<(), TowerMismatch> {
    let text = &checkpoint.shape;
    let models = MODELS.iter().find(|(family, _)| *family == shape.family);
    if !models.is_some_and(|(_, models)| models.contains(&text.architecture)) {
        return Err(TowerMismatch::Family {
            tower: shape.family,
            model: text.architecture,
        });
    }
    let (tower, model) = (shape.projector.text, text.hidden);
    if tower != model {
        return Err(TowerMismatch::Width { tower, model });
    }
    let (tower, model) = (shape.deepstack.len(), text.images.deepstack);
    if tower != model {
        return Err(TowerMismatch::Layers { tower, model });
    }
    Ok(())
}

/// Checks that patches are as the tower reads them.
fn check_processor(shape: &TowerShape, settings: &vision::Settings) -> Result<(), TowerMismatch> {
    let patch = &shape.patch;
    let differs = [
        ("pixels of a side", patch.size != settings.patch as usize),
        (
            "patches of a token",
            shape.projector.side != settings.merge as usize,
        ),
        ("pictures", patch.frames != settings.repeats as usize),
        ("order of patches", patch.in_blocks != settings.by_block),
        ("order of values", patch.channels_last != settings.by_pixel),
    ];
    match differs.into_iter().find(|(_, differs)| *differs) {
        Some((what, _)) => Err(TowerMismatch::Processor { what }),
        None => Ok(()),
    }
}

/// Returns the settings of a family's processor as published, with the sizes of a tower. A GGUF file has no others.
fn usual(shape: &TowerShape) -> vision::Settings {
    let usual = match shape.family {
        "gemma3" => vision::Settings::gemma3(),
        "gemma4" => vision::Settings::gemma4(),
        "idefics3" => vision::Settings::smolvlm(),
        "lfm2_vl" => vision::Settings::lfm2_vl(),
        _ => vision::Settings::qwen(),
    };
    let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let patch = narrow(shape.patch.size);
    let side = match shape.positions {
        Positions::Fixed { side } => narrow(side).saturating_mul(patch),
        _ => 0,
    };
    let rule = match usual.rule {
        Rule::Gemma3 { .. } => Rule::Gemma3 { side },
        Rule::SmolVlm { .. } => Rule::SmolVlm {
            longest: side.saturating_mul(4),
            tile: side,
        },
        rule => rule,
    };
    vision::Settings {
        rule,
        patch,
        merge: narrow(shape.projector.side),
        repeats: narrow(shape.patch.frames),
        ..usual
    }
}

/// Files of settings are a few kilobytes.
const LONGEST: u64 = 4 << 20;

/// Returns the settings that a folder's files state.
fn published(folder: &Path) -> Result<vision::Settings, TowerMismatch> {
    let bad = |file: &str, why: String| TowerMismatch::Settings(format!("{file}: {why}"));
    let read = |file: &str| {
        let path = folder.join(file);
        let Ok(length) = fs::metadata(&path).map(|file| file.len()) else {
            return Ok(None);
        };
        if length > LONGEST {
            return Err(bad(file, format!("it has more than {LONGEST} bytes")));
        }
        let text = fs::read_to_string(&path).map_err(|error| bad(file, error.to_string()))?;
        let value = serde_json::from_str::<Value>(&text);
        value
            .map(Some)
            .map_err(|error| bad(file, error.to_string()))
    };
    let config = read("config.json")?.unwrap_or_default();
    let preprocessor = read("preprocessor_config.json")?;
    let processor = read("processor_config.json")?;
    let published = Published {
        config: &config,
        preprocessor: preprocessor.as_ref(),
        processor: processor.as_ref(),
    };
    let settings = published.settings();
    settings.map_err(|error| TowerMismatch::Settings(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn golden(name: &str) -> PathBuf {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        root.join(name)
    }

    fn found(model: &Path, tower: TowerFile) -> Result<FoundTower, LoadError> {
        let checkpoint = Checkpoint::open(model).expect("golden data");
        let mut settings = Settings::default();
        (settings.vision.tower, settings.threads) = (tower, 1);
        open_tower(model, &checkpoint, &settings)
    }

    /// A folder with models and towers of several families: each model gets its own, and a model of text gets none.
    #[test]
    fn a_model_gets_the_tower_that_fits_it() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let link = |from: &str, to: &str| {
            let to = folder.path().join(to);
            std::os::unix::fs::symlink(golden(from), &to).expect("a link");
            to
        };
        let qwen = link("tiny-qwen3_5/model.q8_0.gguf", "qwen.gguf");
        let gemma = link("tiny-gemma4_dense/model.q8_0.gguf", "gemma.gguf");
        let text = link("tiny-granitemoehybrid/model.q8_0.gguf", "granite.gguf");
        let first = link("vision/tiny-qwen3_5.mmproj-f16.gguf", "one-mmproj.gguf");
        let other = link("vision/tiny-gemma4.mmproj-f16.gguf", "mmproj-other.gguf");
        for (model, tower, rows) in [
            (&qwen, Some(&first), 0),
            (&gemma, Some(&other), 280),
            (&text, None, 0),
        ] {
            let FoundTower {
                tower: opened,
                skipped,
            } = found(model, TowerFile::Found).expect("no tower is ambiguous");
            assert_eq!(opened.as_ref().map(|opened| &opened.path), tower);
            assert_eq!(skipped.len(), 2 - usize::from(tower.is_some()));
            let needs = opened.as_ref().map(OpenTower::needs).unwrap_or_default();
            assert_eq!(needs.rows, rows);
            assert_eq!(needs.has_tower(), tower.is_some());
            assert!(found(model, TowerFile::None).expect("none").tower.is_none());
        }
        let refused = found(&qwen, TowerFile::Named(other)).expect_err("it does not fit");
        let refused = refused.to_string();
        assert!(
            refused.contains("(gemma4) is for other models than qwen3_5"),
            "{refused}"
        );
        link("vision/tiny-qwen3_5.mmproj-f16.gguf", "two-mmproj.gguf");
        let refused = found(&qwen, TowerFile::Found)
            .expect_err("two fit")
            .to_string();
        assert!(
            refused.contains("both") && refused.contains("two-mmproj"),
            "{refused}"
        );
    }
}

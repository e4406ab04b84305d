//! A directory as Hugging Face transformers saves a model: config, weights, and language files.

use std::path::Path;

use super::config::Described;
use super::plan::Plan;
use super::{
    Checkpoint, HuggingFaceFiles, LanguageSource, config, files, names, safetensors, templates,
};
use crate::model::shown::shown;
use crate::model::{Defect, ModelError};

/// Configs are a few kilobytes, `tokenizer_config.json` with many added tokens some hundred.
const LONGEST_CONFIG: u64 = 4 << 20;

pub(super) fn open(path: &Path) -> Result<Checkpoint, ModelError> {
    let config = path.join("config.json");
    if !config.exists() {
        return Err(Defect::NotAModel.at(path));
    }
    let Described {
        shape,
        architecture,
        tied,
    } = files::read_text(&config, LONGEST_CONFIG)
        .and_then(|text| config::read(&text))
        .map_err(|defect| defect.at(&config))?;
    let (directory, files) = safetensors::open(path)?;
    let plan = Plan {
        shape: &shape,
        architecture,
        names: &names::HUGGING_FACE,
        directory: &directory,
        interleaved: false,
        tied,
    };
    let tensors = plan.weights().map_err(|defect| defect.at(path))?;
    let full = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = full.file_name().unwrap_or_default().to_string_lossy();
    Ok(Checkpoint {
        name: shown(&folder).to_string(),
        tensors,
        files,
        language: language(path, shape.vocabulary)
            .map(LanguageSource::HuggingFace)
            .map_err(|error| error.to_string()),
        shape,
    })
}

/// The language files beside the weights. Their own contents are the tokenizer's to check.
fn language(path: &Path, vocabulary: usize) -> Result<HuggingFaceFiles, ModelError> {
    let existing = |name: &str| Some(path.join(name)).filter(|path| path.exists());
    let tokenizer_config = existing("tokenizer_config.json");
    Ok(HuggingFaceFiles {
        tokenizer: path.join("tokenizer.json"),
        tokenizer_config,
        generation_config: existing("generation_config.json"),
        chat_template: templates::of_directory(path)?,
        vocabulary,
    })
}

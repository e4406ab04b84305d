//! A directory as Hugging Face transformers saves a model: config, weights, and language files.

use std::path::Path;

use serde::Deserialize;

use super::config::Described;
use super::plan::Plan;
use super::{
    Checkpoint, HuggingFaceFiles, LanguageSource, Recommended, config, files, names, safetensors,
    sampling,
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
    let sampling = sampling(path)?;
    let full = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = full.file_name().unwrap_or_default().to_string_lossy();
    Ok(Checkpoint {
        name: shown(&folder).to_string(),
        tensors,
        sampling,
        file_type: None,
        files,
        language: language(path, shape.vocabulary)
            .map(LanguageSource::HuggingFace)
            .map_err(|error| error.to_string()),
        shape,
    })
}

/// The sampling that `generation_config.json` recommends, if it is there.
fn sampling(path: &Path) -> Result<Recommended, ModelError> {
    let file = path.join("generation_config.json");
    if !file.exists() {
        return Ok(Recommended::default());
    }
    files::read_text(&file, LONGEST_CONFIG)
        .and_then(|text| sampling::of_generation_config(&text))
        .map_err(|defect| defect.at(&file))
}

/// The language files beside the weights. Their own contents are the tokenizer's to check.
fn language(path: &Path, vocabulary: usize) -> Result<HuggingFaceFiles, ModelError> {
    let existing = |name: &str| Some(path.join(name)).filter(|path| path.exists());
    let tokenizer_config = existing("tokenizer_config.json");
    let chat_template = match (existing("chat_template.jinja"), &tokenizer_config) {
        (Some(file), _) => {
            Some(files::read_text(&file, LONGEST_CONFIG).map_err(|defect| defect.at(&file))?)
        }
        (None, Some(file)) => files::read_text(file, LONGEST_CONFIG)
            .and_then(|text| template(&text))
            .map_err(|defect| defect.at(file))?,
        (None, None) => None,
    };
    Ok(HuggingFaceFiles {
        tokenizer: path.join("tokenizer.json"),
        tokenizer_config,
        generation_config: existing("generation_config.json"),
        chat_template,
        vocabulary,
    })
}

/// `chat_template` of a `tokenizer_config.json`; of several, the one called default.
fn template(text: &str) -> Result<Option<String>, Defect> {
    #[derive(Deserialize)]
    struct Config {
        chat_template: Option<Templates>,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Templates {
        One(String),
        Several(Vec<Named>),
    }
    #[derive(Deserialize)]
    struct Named {
        name: String,
        template: String,
    }
    let config: Config =
        serde_json::from_str(text).map_err(|error| Defect::Malformed(error.to_string()))?;
    Ok(config.chat_template.and_then(|templates| match templates {
        Templates::One(template) => Some(template),
        Templates::Several(named) => named
            .into_iter()
            .find(|named| named.name == "default")
            .map(|named| named.template),
    }))
}

//! Opens a directory in the layout of Hugging Face transformers: config, weights and language files.

use std::path::Path;

use super::assistant::{self, AssistantCheckpoint};
use super::config::Described;
use super::files::ModelFile;
use super::language_source::{HuggingFaceFiles, LanguageSource};
use super::plan::Plan;
use super::read_buffer::ReadBuffer;
use super::sampling::Recommended;
use super::unread::Checkpoint;
use super::{config, files, foreign, safetensors, sampling, templates};
use crate::model::error::{Defect, ModelError};
use crate::model::shape::Shape;
use crate::model::shown::shown;

/// Configs are a few kilobytes, `tokenizer_config.json` with many added tokens some hundred.
const LONGEST_CONFIG: u64 = 4 << 20;

/// Tokenizers in other formats.
const OTHER_TOKENIZERS: [&str; 4] = ["tokenizer.model", "tekken.json", "vocab.json", "vocab.txt"];

/// Rows of the embedding and the head that are compared at each end.
const COMPARED: usize = 16;

/// Files that only quantized checkpoints have, and the methods that write them.
const QUANTIZED: [(&str, &str); 3] = [
    ("quantize_config.json", "GPTQ"),
    ("quant_config.json", "AWQ"),
    ("hf_quant_config.json", "NVIDIA ModelOpt"),
];

pub(super) fn open(path: &Path) -> Result<Checkpoint, ModelError> {
    let config = path.join("config.json");
    if !config.exists() {
        return Err(foreign::folder(path).unwrap_or(Defect::NotAModel).at(path));
    }
    for (file, method) in QUANTIZED {
        if path.join(file).exists() {
            let (key, method) = (file.into(), method.into());
            return Err(Defect::Quantized { key, method }.at(path));
        }
    }
    let Described {
        shape,
        architecture,
        tied,
        biased,
    } = files::read_text(&config, LONGEST_CONFIG)
        .and_then(|text| match config::read_assistant(&text)? {
            Some(_) => Err(assistant::refused()),
            None => config::read(&text),
        })
        .map_err(|defect| defect.at(&config))?;
    let (directory, files) = safetensors::open(path)?;
    let mut plan = Plan {
        shape: &shape,
        architecture,
        names: architecture.names[0],
        directory: &directory,
        interleaved: false,
        tied: Some(tied),
        biased,
    };
    let failed = |defect: Defect| defect.at(path);
    if tied && has_other_head(&plan, &files).map_err(failed)? {
        plan.tied = Some(false);
    }
    let (tensors, guess) = (plan.weights().map_err(failed)?, plan.guess());
    let guess_layers = plan.guess_layers();
    let sampling = sampling(path)?;
    let full = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = full.file_name().unwrap_or_default().to_string_lossy();
    Ok(Checkpoint {
        name: shown(&folder).to_string(),
        tensors,
        guess,
        guess_layers,
        sampling,
        file_type: None,
        files,
        language: language(path, shape.vocabulary)
            .map(LanguageSource::HuggingFace)
            .map_err(|error| error.to_string()),
        shape: Shape {
            guess: None,
            ..shape
        },
    })
}

/// Opens a directory with an assistant; `None` if it has another model, or none.
pub(super) fn open_assistant(path: &Path) -> Result<Option<AssistantCheckpoint>, ModelError> {
    let config = path.join("config.json");
    if !config.exists() {
        return Ok(None);
    }
    let described = files::read_text(&config, LONGEST_CONFIG)
        .and_then(|text| config::read_assistant(&text))
        .map_err(|defect| defect.at(&config))?;
    let Some((described, model_hidden)) = described else {
        return Ok(None);
    };
    let shape = assistant::as_assistant(described.shape);
    let (directory, files) = safetensors::open(path)?;
    let plan = Plan {
        shape: &shape,
        architecture: described.architecture,
        names: described.architecture.names[0],
        directory: &directory,
        interleaved: false,
        tied: Some(described.tied),
        biased: described.biased,
    };
    let failed = |defect: Defect| defect.at(path);
    let tensors = plan.weights().map_err(failed)?;
    let bridges = plan.bridges(assistant::BRIDGES[0], model_hidden);
    let [join, hidden] = bridges.map_err(failed)?;
    let full = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = full.file_name().unwrap_or_default().to_string_lossy();
    Ok(Some(AssistantCheckpoint {
        checkpoint: Checkpoint {
            name: shown(&folder).to_string(),
            tensors,
            guess: Ok(None),
            guess_layers: 0,
            sampling: Recommended::default(),
            file_type: None,
            files,
            language: Err("an assistant has that of its model".into()),
            shape,
        },
        join,
        hidden,
        model_hidden,
    }))
}

/// Whether the files have a head that differs from the embedding, although the config ties both. Such a head is used,
/// as in transformers. Only the first and last rows are compared.
fn has_other_head(plan: &Plan<'_>, files: &[ModelFile]) -> Result<bool, Defect> {
    let (embedding, Some(head)) = plan.ends()? else {
        return Ok(false);
    };
    let rows = embedding.rows;
    let some = COMPARED.min(rows);
    for rows in [0..some, rows - some..rows] {
        let mut buffers = [ReadBuffer::default(), ReadBuffer::default()];
        let [one, other] = &mut buffers;
        let one = files[embedding.file].rows(&embedding, rows.clone(), one)?;
        let other = files[head.file].rows(&head, rows, other)?;
        if embedding.format != head.format || one != other {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads the sampling that `generation_config.json` recommends, if it exists.
fn sampling(path: &Path) -> Result<Recommended, ModelError> {
    let file = path.join("generation_config.json");
    if !file.exists() {
        return Ok(Recommended::default());
    }
    files::read_text(&file, LONGEST_CONFIG)
        .and_then(|text| sampling::of_generation_config(&text))
        .map_err(|defect| defect.at(&file))
}

/// Lists the language files of the directory. The tokenizer checks their contents.
fn language(path: &Path, vocabulary: usize) -> Result<HuggingFaceFiles, ModelError> {
    let existing = |name: &str| Some(path.join(name)).filter(|path| path.exists());
    if existing("tokenizer.json").is_none()
        && let Some(other) = OTHER_TOKENIZERS.iter().find_map(|name| existing(name))
    {
        return Err(Defect::missing(
            "tokenizer.json is missing, and this file is not supported in its place",
            "transformers writes it: AutoTokenizer.from_pretrained(...).save_pretrained(...)",
        )
        .at(&other));
    }
    let tokenizer_config = existing("tokenizer_config.json");
    Ok(HuggingFaceFiles {
        tokenizer: path.join("tokenizer.json"),
        tokenizer_config,
        generation_config: existing("generation_config.json"),
        chat_template: templates::of_directory(path)?,
        vocabulary,
    })
}

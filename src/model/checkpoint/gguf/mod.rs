//! Reads GGUF files, versions 2 and 3, little-endian, in one file or split into parts.
//! <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>
//! Not here: other formats, and the use of the vocabulary (`tokenizer`).

mod metadata;
mod reader;
mod shape;
mod tensors;
pub(super) mod tower;
mod vocabulary;

use std::path::{Path, PathBuf};

use metadata::{Metadata, required};
use reader::Reader;

use super::assistant::{self, AssistantCheckpoint};
use super::files::ModelFile;
use super::language_source::{GgufVocabulary, LanguageSource};
use super::plan::Plan;
use super::read_buffer::ReadBuffer;
use super::sampling::Recommended;
use super::stored::Directory;
use super::unread::Checkpoint;
use super::{files, foreign, parts, sampling, templates};
use crate::model::architecture::{ASSISTANT, Architecture};
use crate::model::error::{Defect, ModelError};
use crate::model::shape::Shape;
use crate::model::shown::shown;

/// Real models have fewer than 2,000.
const MOST_TENSORS: u64 = 16 << 10;
/// Real models have fewer than 100. Ten million would take 1.6 GB and 14 s.
const MOST_KEYS: u64 = 1 << 10;

/// The divisors of the rope frequencies. This tensor is the only sign of llama3 scaling.
const FACTORS: &str = "rope_freqs.weight";

/// A divisor of a pair that does not rotate.
const STILL: f32 = 1e30;

/// The divisors of the rope frequencies of a short cache, and of one that is longer than the original context.
const LONG_FACTORS: [&str; 2] = ["rope_factors_short.weight", "rope_factors_long.weight"];

pub(super) fn open(path: &Path) -> Result<Checkpoint, ModelError> {
    let source = ModelFile::open(path).map_err(|defect| defect.at(path))?;
    let first = read_head(&source, 0).map_err(|defect| defect.at(path))?;
    let (sources, head) = with_parts(source, first)?;
    checkpoint(path, sources, head).map_err(|defect| defect.at(path))
}

fn checkpoint(path: &Path, sources: Vec<ModelFile>, head: Head) -> Result<Checkpoint, Defect> {
    let Head {
        mut metadata,
        directory,
    } = head;
    refuse_other_kinds(&metadata)?;
    let architecture = required(
        metadata.string("general.architecture"),
        "general.architecture",
    )?;
    let architecture = Architecture::of_gguf(architecture)?;
    if directory.is_empty() {
        return Err(Defect::foreign(
            "a GGUF file without tensors, such as a vocabulary",
            "name the file that has the weights",
        ));
    }
    let mut shape = read_shape(&metadata, &directory, &sources, architecture)?;
    let plan = plan(&shape, architecture, &directory);
    let (tensors, guess) = (plan.weights()?, plan.guess());
    let guess_layers = plan.guess_layers();
    shape.guess = None;
    divide_angles(&mut shape, &directory, &sources)?;
    let name = metadata.string("general.name").ok().flatten();
    let name = name.unwrap_or_else(|| files::stem(path));
    let name = shown(&name).to_string();
    let sampling = sampling::of_gguf(|key| metadata.number(key));
    let file_type = metadata.size("general.file_type").unwrap_or_default();
    let own = templates::next_to_model(path).map(|file| templates::of_file(&file));
    let own = own.transpose().map_err(|error| error.defect)?;
    let language = vocabulary::take(&mut metadata, shape.vocabulary)?.map(|vocabulary| {
        let chat_template = own.or_else(|| vocabulary.chat_template.clone());
        LanguageSource::Gguf(GgufVocabulary {
            chat_template,
            ..vocabulary
        })
    });
    Ok(Checkpoint {
        name,
        shape,
        tensors,
        guess,
        guess_layers,
        sampling,
        file_type,
        files: sources,
        language,
    })
}

/// Opens a file with an assistant; `None` if it has another model.
pub(super) fn open_assistant(path: &Path) -> Result<Option<AssistantCheckpoint>, ModelError> {
    let source = ModelFile::open(path).map_err(|defect| defect.at(path))?;
    let first = read_head(&source, 0).map_err(|defect| defect.at(path))?;
    let kind = first.metadata.string("general.architecture");
    if kind.ok().flatten().as_deref() != Some(assistant::GGUF) {
        return Ok(None);
    }
    let (sources, head) = with_parts(source, first)?;
    assistant_of(path, sources, &head)
        .map(Some)
        .map_err(|defect| defect.at(path))
}

fn assistant_of(
    path: &Path,
    sources: Vec<ModelFile>,
    head: &Head,
) -> Result<AssistantCheckpoint, Defect> {
    let Head {
        metadata,
        directory,
    } = head;
    let mut shape = read_shape(metadata, directory, &sources, &ASSISTANT)?;
    divide_angles(&mut shape, directory, &sources)?;
    let shape = assistant::as_assistant(shape);
    let key = format!("{}.embedding_length_out", ASSISTANT.gguf);
    let model_hidden = required(metadata.size(&key), &key)?;
    let plan = plan(&shape, &ASSISTANT, directory);
    let tensors = plan.weights()?;
    let [join, hidden] = plan.bridges(assistant::BRIDGES[1], model_hidden)?;
    Ok(AssistantCheckpoint {
        checkpoint: Checkpoint {
            name: shown(&files::stem(path)).to_string(),
            tensors,
            guess: Ok(None),
            guess_layers: 0,
            sampling: Recommended::default(),
            file_type: metadata.size("general.file_type").unwrap_or_default(),
            files: sources,
            language: Err("an assistant has that of its model".into()),
            shape,
        },
        join,
        hidden,
        model_hidden,
    })
}

/// Reads the shape of a file. Its rope frequencies are not yet divided by `rope_freqs.weight`.
fn read_shape(
    metadata: &Metadata,
    directory: &Directory,
    sources: &[ModelFile],
    architecture: &'static Architecture,
) -> Result<Shape, Defect> {
    let embedding = architecture.names[1].embedding;
    let vocabulary = directory
        .get(embedding)
        .and_then(|stored| stored.dimensions.first().copied())
        .ok_or_else(|| Defect::MissingTensor(embedding.into()))?;
    let long = long_factors(directory, sources)?;
    shape::read((metadata, directory), architecture, vocabulary, long)
}

fn plan<'a>(
    shape: &'a Shape,
    architecture: &'static Architecture,
    directory: &'a Directory,
) -> Plan<'a> {
    Plan {
        shape,
        architecture,
        names: architecture.names[1],
        directory,
        interleaved: architecture.interleaved,
        tied: None,
        biased: None,
    }
}

/// Divides the rope frequencies of the first table by `rope_freqs.weight`, if the file has it.
fn divide_angles(
    shape: &mut Shape,
    directory: &Directory,
    sources: &[ModelFile],
) -> Result<(), Defect> {
    let (Some(factors), Some(table)) = (directory.get(FACTORS), shape.angles.first_mut()) else {
        return Ok(());
    };
    let pairs = table.frequencies.len();
    if factors.dimensions != [pairs] {
        let problem = format!(
            "is {:?}; the model's shape says [{pairs}]",
            factors.dimensions
        );
        return Err(Defect::tensor(FACTORS, problem));
    }
    let factors = factors.tensor(FACTORS.into())?.separable()?;
    let factors = sources[factors.file].vector(&factors, &mut ReadBuffer::default())?;
    for (frequency, factor) in table.frequencies.iter_mut().zip(factors) {
        *frequency = if factor >= STILL {
            0.0
        } else {
            *frequency / factor
        };
    }
    shape.check_rope()
}

/// Reads the divisors of the rope frequencies for a short and a long cache, if the file has them.
fn long_factors(
    directory: &Directory,
    sources: &[ModelFile],
) -> Result<Option<[Vec<f64>; 2]>, Defect> {
    let factors = |name: &str| {
        let Some(stored) = directory.get(name) else {
            return Ok(None);
        };
        let tensor = stored.tensor(name.into())?.separable()?;
        let values = sources[stored.file].vector(&tensor, &mut ReadBuffer::default())?;
        Ok::<_, Defect>(Some(values.into_iter().map(f64::from).collect()))
    };
    let [short, long] = LONG_FACTORS.map(factors);
    Ok(short?.zip(long?).map(Into::into))
}

/// Refuses GGUF files that are not language models.
fn refuse_other_kinds(metadata: &Metadata) -> Result<(), Defect> {
    let text = |key| metadata.string(key).ok().flatten().unwrap_or_default();
    match (
        text("general.type").as_str(),
        text("general.architecture").as_str(),
    ) {
        ("adapter", _) => {
            let base = metadata.string("general.base_model.0.name").ok().flatten();
            Err(foreign::lora(base))
        }
        ("mmproj", _) | (_, "clip") => Err(Defect::foreign(
            "the vision part of a model (mmproj)",
            "name the file of the language model that is published next to it; images are not supported",
        )),
        (_, assistant::GGUF) => Err(assistant::refused()),
        ("imatrix", _) => Err(Defect::foreign(
            "an importance matrix, which is used to quantize a model",
            "name the file of the model itself",
        )),
        _ => Ok(()),
    }
}

/// The metadata and the tensor infos of a file.
struct Head {
    metadata: Metadata,
    directory: Directory,
}

/// Opens the other parts of a model, and joins the tensors of all parts.
fn with_parts(first: ModelFile, head: Head) -> Result<(Vec<ModelFile>, Head), ModelError> {
    let path = first.path.clone();
    let size = |metadata: &Metadata, key: &str| {
        let size = metadata.size(key).map_err(|defect| defect.at(&path));
        size.map(Option::unwrap_or_default)
    };
    let count = size(&head.metadata, "split.count")?;
    if count <= 1 {
        return Ok((vec![first], head));
    }
    let number = size(&head.metadata, "split.no")?;
    let named = path.file_name().and_then(|name| name.to_str());
    let named = named.and_then(parts::of);
    if number != 0 || named.as_ref().is_some_and(|part| part.number != 1) {
        let first = parts::sibling(&path, 1);
        let first = first.map_or_else(|| "its name ends in -00001-of-".into(), shown_path);
        return Err(Defect::foreign(
            format!("part {} of {count} of a split file", number + 1),
            format!("name the first part: {first}"),
        )
        .at(&path));
    }
    if named.is_none_or(|part| part.count != count) {
        return Err(Defect::foreign(
            format!("the first of {count} parts under another name"),
            format!(
                "keep the names of the parts, which end in -00001-of-{count:05}.gguf, or join them: \
                 llama-gguf-split --merge"
            ),
        )
        .at(&path));
    }
    let expected = size(&head.metadata, "split.tensors.count")?;
    let Head {
        metadata,
        mut directory,
    } = head;
    let mut sources = vec![first];
    for (index, path) in (1..).zip(parts::all_parts(&path).into_iter().skip(1)) {
        let (source, tensors) = part(&path, index).map_err(|defect| defect.at(&path))?;
        for (name, stored) in tensors {
            if directory.contains_key(&name) {
                return Err(Defect::tensor(&name, "is in two parts").at(&path));
            }
            directory.insert(name, stored);
        }
        sources.push(source);
    }
    let found = directory.len();
    if expected != 0 && found != expected {
        let problem = format!("{count} parts have {found} tensors, and {expected} are declared");
        return Err(Defect::Malformed(problem).at(&path));
    }
    let head = Head {
        metadata,
        directory,
    };
    Ok((sources, head))
}

/// Opens a later part and reads its tensors.
fn part(path: &Path, index: usize) -> Result<(ModelFile, Directory), Defect> {
    if !path.exists() {
        return Err(Defect::missing(
            "this part of the model is missing",
            "fetch it: all parts must be in one folder",
        ));
    }
    let source = ModelFile::open(path)?;
    let Head {
        metadata,
        directory,
    } = read_head(&source, index)?;
    if metadata.size("split.no")? != Some(index) {
        let problem = format!("its split.no is not {index}, as its name says");
        return Err(Defect::Malformed(problem));
    }
    Ok((source, directory))
}

#[allow(clippy::needless_pass_by_value)] // as a path is mapped
fn shown_path(path: PathBuf) -> String {
    path.display().to_string()
}

/// Reads the head of a file, which is part `index` of the model.
fn read_head(source: &ModelFile, index: usize) -> Result<Head, Defect> {
    let file_len = source.length;
    let reader = &mut Reader::new(&source.file, file_len);
    if reader.bytes("the magic number").ok() != Some(*b"GGUF") {
        let none = Defect::NotAModel;
        return Err(foreign::file(&source.file, &source.path, file_len, none));
    }
    match reader.u32("the version")? {
        2 | 3 => {}
        version if version.trailing_zeros() >= 16 => {
            return Err(Defect::bad_value(
                "byte order",
                "big-endian",
                "convert it to little-endian",
            ));
        }
        version => {
            return Err(Defect::bad_value(
                "GGUF version",
                version,
                "2 and 3 are read: convert it",
            ));
        }
    }
    // The least bytes of a tensor's info, and of a key with its value.
    let tensors = reader.count("the number of tensors", 24, MOST_TENSORS)?;
    let keys = reader.count("the number of metadata keys", 13, MOST_KEYS)?;
    let metadata = Metadata::read(reader, keys, &vocabulary::ARRAYS)?;
    let alignment = metadata.size("general.alignment")?.unwrap_or(32);
    if !alignment.is_power_of_two() || alignment > 1 << 20 {
        let allowed = "it must be a power of two up to 1048576";
        return Err(Defect::bad_value("general.alignment", alignment, allowed));
    }
    let mut directory = tensors::read(reader, tensors, alignment as u64, file_len)?;
    for stored in directory.values_mut() {
        stored.file = index;
    }
    Ok(Head {
        metadata,
        directory,
    })
}

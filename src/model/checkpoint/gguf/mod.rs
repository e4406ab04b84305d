//! GGUF files, versions 2 and 3, little-endian, in one piece.
//! <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>

mod metadata;
mod reader;
mod shape;
mod tensors;
mod vocabulary;

use std::path::Path;

use metadata::{Metadata, required};
use reader::Reader;

use super::files::Source;
use super::stored::Directory;
use super::{Checkpoint, Landing, LanguageSource, files, names, plan::Plan, sampling};
use crate::model::Defect;
use crate::model::architecture::Architecture;
use crate::model::shown::shown;

/// Real models have fewer than 2,000.
const MOST_TENSORS: u64 = 16 << 10;
/// Real models have fewer than 100. Ten million would take 1.6 GB and 14 s.
const MOST_KEYS: u64 = 1 << 10;

/// What each rope frequency is divided by: llama3 scaling, which has no metadata.
const FACTORS: &str = "rope_freqs.weight";

pub(super) fn open(path: &Path) -> Result<Checkpoint, Defect> {
    let source = Source::open(path)?;
    let mut reader = Reader::new(&source.file, source.length);
    let (mut metadata, directory) = read_head(&mut reader, source.length)?;

    let architecture = required(
        metadata.string("general.architecture"),
        "general.architecture",
    )?;
    let architecture = Architecture::of_gguf(architecture)?;
    let embedding = names::GGUF.embedding;
    let vocabulary = directory
        .get(embedding)
        .and_then(|stored| stored.dimensions.first().copied())
        .ok_or_else(|| Defect::MissingTensor(embedding.into()))?;
    let mut shape = shape::read(&metadata, architecture, vocabulary)?;
    let plan = Plan {
        shape: &shape,
        architecture,
        names: &names::GGUF,
        directory: &directory,
        interleaved: architecture.interleaved,
        tied: None,
    };
    let tensors = plan.weights()?;
    let factors = directory
        .contains_key(FACTORS)
        .then(|| plan.vector(FACTORS.into(), shape.head_dim / 2))
        .transpose()?;
    if let Some(factors) = factors {
        let factors = source.vector(&factors, &mut Landing::default())?;
        let frequencies = &mut shape.angles[0].frequencies;
        for (frequency, factor) in frequencies.iter_mut().zip(factors) {
            *frequency /= factor;
        }
        shape.check_rope()?;
    }
    let name = metadata
        .string("general.name")?
        .unwrap_or_else(|| files::stem(path));
    let name = shown(&name).to_string();
    let sampling = sampling::of_gguf(|key| metadata.number(key));
    let file_type = metadata.size("general.file_type").unwrap_or_default();
    let language = vocabulary::take(&mut metadata, shape.vocabulary)?.map(LanguageSource::Gguf);
    Ok(Checkpoint {
        name,
        shape,
        tensors,
        sampling,
        file_type,
        files: vec![source],
        language,
    })
}

fn read_head(reader: &mut Reader<'_>, file_len: u64) -> Result<(Metadata, Directory), Defect> {
    if reader.bytes("the magic number").ok() != Some(*b"GGUF") {
        return Err(Defect::NotAModel);
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
    // The fewest bytes of a tensor's info and of a key with its value.
    let tensors = reader.count("the number of tensors", 24, MOST_TENSORS)?;
    let keys = reader.count("the number of metadata keys", 13, MOST_KEYS)?;
    let metadata = Metadata::read(reader, keys, &vocabulary::ARRAYS)?;
    if let Some(parts) = metadata.size("split.count")?.filter(|parts| *parts > 1) {
        let allowed = "join the parts with llama-gguf-split --merge";
        return Err(Defect::bad_value("split.count", parts, allowed));
    }
    let alignment = metadata.size("general.alignment")?.unwrap_or(32);
    if !alignment.is_power_of_two() || alignment > 1 << 20 {
        let allowed = "it must be a power of two up to 1048576";
        return Err(Defect::bad_value("general.alignment", alignment, allowed));
    }
    let directory = tensors::read(reader, tensors, alignment as u64, file_len)?;
    Ok((metadata, directory))
}

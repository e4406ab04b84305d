//! Reads the headers of one or several safetensors files. <https://huggingface.co/docs/safetensors/index#format>

use std::collections::{BTreeSet, HashMap};
use std::os::unix::fs::FileExt;
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::Metadata;
use serde::Deserialize;

use super::files::{self, ModelFile};
use super::foreign;
use super::stored::{Directory, Stored};
use crate::model::error::{Defect, ModelError};
use crate::quant::Format;

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
/// Headers and indices of real models take 150 KB for each thousand tensors.
const LONGEST_HEADER: u64 = 4 << 20;
/// NAME_MAX of Linux.
const LONGEST_NAME: usize = 255;

/// Opens the weights in a directory and checks every tensor against its file.
pub(super) fn open(path: &Path) -> Result<(Directory, Vec<ModelFile>), ModelError> {
    let single = path.join(SINGLE);
    if single.exists() {
        let (directory, source) = read(&single, 0).map_err(|defect| defect.at(&single))?;
        return Ok((directory, vec![source]));
    }
    let index = path.join(INDEX);
    if !index.exists() {
        return Err(foreign::folder(path).unwrap_or(Defect::NotAModel).at(path));
    }
    let shards = weight_map(&index).map_err(|defect| defect.at(&index))?;
    let mut directory = Directory::new();
    let mut opened = Vec::new();
    for shard in shards.values().collect::<BTreeSet<_>>() {
        let path = path.join(shard);
        if !path.exists() {
            let what = format!("this shard, which {INDEX} names, is missing");
            return Err(Defect::missing(what, "fetch it from where the others are from").at(&path));
        }
        let (tensors, source) = read(&path, opened.len()).map_err(|defect| defect.at(&path))?;
        directory.extend(
            tensors
                .into_iter()
                .filter(|(name, _)| shards.get(name) == Some(shard)),
        );
        opened.push(source);
    }
    Ok((directory, opened))
}

/// Returns the shard of each tensor.
fn weight_map(index: &Path) -> Result<HashMap<String, String>, Defect> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: HashMap<String, String>,
    }
    let text = files::read_text(index, LONGEST_HEADER)?;
    let Index { weight_map } =
        serde_json::from_str(&text).map_err(|error| Defect::Malformed(error.to_string()))?;
    // A shard is in the folder of its index: a name that leads elsewhere is an attack or a mistake.
    let is_plain = |shard: &str| {
        Path::new(shard).file_name() == Some(shard.as_ref())
            && shard.len() <= LONGEST_NAME
            && !shard.contains(char::is_control)
    };
    match weight_map.values().find(|shard| !is_plain(shard)) {
        Some(shard) => Err(Defect::bad_value(
            "shard",
            shard,
            "it must be a plain file name",
        )),
        None => Ok(weight_map),
    }
}

fn read(path: &Path, index: usize) -> Result<(Directory, ModelFile), Defect> {
    let source = ModelFile::open(path)?;
    let (file, file_len) = (&source.file, source.length);
    let mut length = [0; 8];
    if file_len >= 8 {
        file.read_exact_at(&mut length, 0)?;
    }
    let length = u64::from_le_bytes(length);
    if length > file_len.saturating_sub(8) {
        let problem = format!("a header of {length} bytes does not fit the file of {file_len}");
        return Err(foreign::file(
            file,
            path,
            file_len,
            Defect::Malformed(problem),
        ));
    }
    if length > LONGEST_HEADER {
        let problem = format!("a header of {length} bytes, and {LONGEST_HEADER} are allowed");
        return Err(Defect::Malformed(problem));
    }
    let mut header = vec![0; usize::try_from(length).unwrap_or(0)];
    file.read_exact_at(&mut header, 8)?;
    let header: Metadata = serde_json::from_slice(&header).map_err(|error| {
        let defect = Defect::Malformed(format!("header: {error}"));
        foreign::file(file, path, file_len, defect)
    })?;
    let mut directory = Directory::new();
    for (name, info) in header.tensors() {
        let stored = Stored {
            dimensions: info.shape.clone(),
            format: match info.dtype {
                Dtype::F32 => Ok(Format::F32),
                Dtype::F16 => Ok(Format::F16),
                Dtype::BF16 => Ok(Format::BF16),
                other => Err(format!("{other:?}")),
            },
            file: index,
            offset: (info.data_offsets.0 as u64).saturating_add(8 + length),
        };
        stored.check(&name, file_len)?;
        directory.insert(name, stored);
    }
    Ok((directory, source))
}

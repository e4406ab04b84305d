//! The tensor infos of a GGUF file.

use super::reader::{LONGEST_NAME, Reader};
use crate::model::checkpoint::stored::{Directory, Stored};
use crate::model::{Defect, Format};

/// Reads `count` tensor infos and checks each against the file. Data starts at the first multiple of
/// `alignment` after them.
pub(super) fn read(
    reader: &mut Reader<'_>,
    count: usize,
    alignment: u64,
    file_len: u64,
) -> Result<Directory, Defect> {
    let mut directory = Directory::new();
    for _ in 0..count {
        let name = reader.string("a tensor's name", LONGEST_NAME)?;
        let stored = info(reader, &name)?;
        if !stored.offset.is_multiple_of(alignment) {
            let problem = format!("offset {} is not aligned to {alignment}", stored.offset);
            return Err(Defect::tensor(&name, problem));
        }
        if directory.contains_key(&name) {
            return Err(Defect::tensor(&name, "is there twice"));
        }
        directory.insert(name, stored);
    }
    let start = reader.position().next_multiple_of(alignment);
    for (name, stored) in &mut directory {
        stored.offset = stored.offset.saturating_add(start);
        stored.check(name, file_len)?;
    }
    Ok(directory)
}

/// One info, its offset still relative to the data.
fn info(reader: &mut Reader<'_>, name: &str) -> Result<Stored, Defect> {
    let dimensions = reader.u32(name)?;
    if dimensions > 4 {
        return Err(Defect::tensor(name, format!("has {dimensions} dimensions")));
    }
    // GGUF writes the columns first.
    let mut dimensions = (0..dimensions)
        .map(|_| {
            let dimension = reader.u64(name)?;
            usize::try_from(dimension)
                .map_err(|_| Defect::tensor(name, format!("has a dimension of {dimension}")))
        })
        .collect::<Result<Vec<_>, _>>()?;
    while dimensions.len() > 1 && dimensions.last() == Some(&1) {
        dimensions.pop();
    }
    dimensions.reverse();
    let format = format(reader.u32(name)?);
    Ok(Stored {
        dimensions,
        format,
        file: 0,
        offset: reader.u64(name)?,
    })
}

/// A format by its number in ggml's `enum ggml_type`.
fn format(number: u32) -> Result<Format, String> {
    let unknown = match number {
        0 => return Ok(Format::F32),
        1 => return Ok(Format::F16),
        2 => return Ok(Format::Q4_0),
        3 => return Ok(Format::Q4_1),
        6 => return Ok(Format::Q5_0),
        7 => return Ok(Format::Q5_1),
        8 => return Ok(Format::Q8_0),
        12 => return Ok(Format::Q4_K),
        13 => return Ok(Format::Q5_K),
        14 => return Ok(Format::Q6_K),
        30 => return Ok(Format::BF16),
        10 => "Q2_K",
        11 => "Q3_K",
        16 => "IQ2_XXS",
        17 => "IQ2_XS",
        18 => "IQ3_XXS",
        19 => "IQ1_S",
        20 => "IQ4_NL",
        21 => "IQ3_S",
        22 => "IQ2_S",
        23 => "IQ4_XS",
        28 => "F64",
        29 => "IQ1_M",
        34 => "TQ1_0",
        35 => "TQ2_0",
        39 => "MXFP4",
        other => return Err(format!("ggml type {other}")),
    };
    Err(unknown.to_owned())
}

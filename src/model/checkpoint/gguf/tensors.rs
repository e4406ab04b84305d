//! The tensor infos of a GGUF file.

use super::reader::{LONGEST_NAME, Reader};
use crate::model::checkpoint::stored::{Directory, Stored};
use crate::model::error::Defect;
use crate::quant::Format;

/// Reads `count` tensor infos and checks each against the file. The data starts at the first multiple of `alignment`
/// after them.
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

/// Reads one info. Its offset is relative to the data.
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
    let format = Format::of_number(reader.u32(name)?);
    Ok(Stored {
        dimensions,
        format,
        file: 0,
        offset: reader.u64(name)?,
    })
}

//! Edits of the keys of a golden model's GGUF file.

use super::golden;
use crate::model::{Checkpoint, ModelError, Shape};

/// The numbers of types of values.
pub(in super::super) const UINT32: u32 = 4;
pub(in super::super) const BOOL: u32 = 7;
const STRING: u32 = 8;
pub(in super::super) const ARRAY: u32 = 9;

/// The place of the number of keys, and the end of the header.
const COUNT: std::ops::Range<usize> = 16..24;
const ALIGNMENT: usize = 32;

/// A key, the type of its value, and the value's bytes.
pub(in super::super) type Entry<'a> = (&'a str, u32, &'a [u8]);

/// Returns the value of an array of flags.
pub(in super::super) fn flags(flags: &[u8]) -> Vec<u8> {
    let length = flags.len() as u64;
    [&BOOL.to_le_bytes()[..], &length.to_le_bytes(), flags].concat()
}

/// Reads the shape of a golden model's file with these keys in place of its own.
pub(in super::super) fn of_gguf_with(
    name: &str,
    entries: &[Entry<'_>],
) -> Result<Shape, ModelError> {
    let mut file = file(name);
    for entry in entries {
        hide(&mut file, entry.0);
        insert(&mut file, *entry);
    }
    shape(&file)
}

/// Reads the shape of a golden model's file without a key.
pub(in super::super) fn of_gguf_without(name: &str, key: &str) -> Result<Shape, ModelError> {
    let mut file = file(name);
    hide(&mut file, key);
    shape(&file)
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(golden(name).join("model.q8_0.gguf")).expect("golden data")
}

fn shape(file: &[u8]) -> Result<Shape, ModelError> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("model.gguf");
    std::fs::write(&path, file).expect("it is written");
    Checkpoint::open(&path).map(|checkpoint| checkpoint.shape)
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

/// Gives a key, if it exists, another name, which no program reads.
fn hide(file: &mut [u8], key: &str) {
    let name = text(key);
    let at = file.windows(name.len()).position(|bytes| bytes == name);
    if let Some(at) = at {
        file[at + name.len() - 1] = b'~';
    }
}

/// Adds a key before the others, and a text that keeps the alignment of what follows.
fn insert(file: &mut Vec<u8>, (key, kind, value): Entry<'_>) {
    let mut added = [&text(key), &kind.to_le_bytes()[..], value].concat();
    added.extend(text(&format!("filler of {key}")));
    added.extend(STRING.to_le_bytes());
    let rest = (added.len() + 8).next_multiple_of(ALIGNMENT) - added.len() - 8;
    added.extend(text(&" ".repeat(rest)));
    let count = file[COUNT].try_into().expect("eight bytes");
    let count = u64::from_le_bytes(count) + 2;
    file[COUNT].copy_from_slice(&count.to_le_bytes());
    file.splice(COUNT.end..COUNT.end, added);
}

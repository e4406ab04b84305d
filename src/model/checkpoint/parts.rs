//! The names of split GGUF files: `NAME-00001-of-0000N.gguf`. The first part names the model.

use std::path::{Path, PathBuf};

/// The most parts of a file, more than any model has.
const MOST: usize = 1000;

/// The place of a part among all parts, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SplitName<'a> {
    /// The name before the number.
    stem: &'a str,
    /// The number of the part, counted from 1.
    pub(super) number: usize,
    pub(super) count: usize,
}

/// Parses a file's name; `None` if it is not that of a part.
pub(super) fn of(name: &str) -> Option<SplitName<'_>> {
    let (stem, count) = name.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (stem, number) = stem.rsplit_once('-')?;
    let number_of = |digits: &str| {
        let is_padded = digits.len() == 5 && digits.bytes().all(|digit| digit.is_ascii_digit());
        is_padded.then(|| digits.parse::<usize>().ok()).flatten()
    };
    let (number, count) = (number_of(number)?, number_of(count)?);
    ((1..=count).contains(&number) && count <= MOST).then_some(SplitName {
        stem,
        number,
        count,
    })
}

/// Returns the path of another part of the same model.
pub(super) fn sibling(path: &Path, number: usize) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let SplitName { stem, count, .. } = of(name)?;
    Some(path.with_file_name(format!("{stem}-{number:05}-of-{count:05}.gguf")))
}

/// Returns the first part of a model, if `path` is a later part.
#[must_use]
pub fn first_part(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    of(name).filter(|part| part.number > 1)?;
    sibling(path, 1)
}

/// Returns all parts of the model whose first part is `path`; for any other file, the file itself.
#[must_use]
pub fn all_parts(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().and_then(|name| name.to_str());
    let count = name.and_then(of).filter(|part| part.number == 1);
    let count = count.map_or(1, |part| part.count);
    let later = (2..=count).filter_map(|number| sibling(path, number));
    std::iter::once(path.to_owned()).chain(later).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_known_by_their_names_alone() {
        let part = of("a-b-00002-of-00003.gguf").expect("a part");
        assert_eq!((part.stem, part.number, part.count), ("a-b", 2, 3));
        for other in [
            "a.gguf",
            "a-1-of-2.gguf",
            "a-00003-of-00002.gguf",
            "a-00000-of-00002.gguf",
            "a-00001-of-00002.safetensors",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
        let named = |path: &str| -> Vec<_> {
            let all = all_parts(Path::new(path)).into_iter();
            all.map(|path| path.display().to_string()).collect()
        };
        let both = ["/m/a-00001-of-00002.gguf", "/m/a-00002-of-00002.gguf"];
        assert_eq!(named(both[0]), both);
        assert_eq!(named(both[1]), both[1..]);
        assert_eq!(first_part(Path::new(both[1])), Some(both[0].into()));
        assert_eq!(first_part(Path::new(both[0])), None);
    }
}

//! The files of a model's vision tower.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

/// The tower that a model is loaded with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TowerFile {
    /// That of the model's folder, or an mmproj file next to the model, if it fits the model.
    #[default]
    Found,
    /// No tower, so that the model sees no images.
    None,
    /// An mmproj file, or a folder of safetensors. It must fit the model.
    Named(PathBuf),
}

/// As in the configuration: "none", a path, or nothing.
impl Serialize for TowerFile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Found => serializer.serialize_none(),
            Self::None => serializer.serialize_some("none"),
            Self::Named(path) => serializer.serialize_some(path),
        }
    }
}

impl TowerFile {
    /// Returns the files or folders that may be a model's tower, the likeliest first.
    #[must_use]
    pub fn candidates(&self, model: &Path) -> Vec<PathBuf> {
        match self {
            Self::None => Vec::new(),
            Self::Named(path) => vec![path.clone()],
            Self::Found if model.is_dir() => vec![model.to_owned()],
            Self::Found => files_next_to(model),
        }
    }
}

/// Returns the mmproj files next to a GGUF file: those whose names share the model's first, and F16 before other formats.
fn files_next_to(model: &Path) -> Vec<PathBuf> {
    let folder = match model.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let name = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.to_lowercase()
    };
    let own = name(model);
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = files.map(|file| file.path()).filter(|path| {
        let name = name(path);
        let is_gguf = |ending: &std::ffi::OsStr| ending.eq_ignore_ascii_case("gguf");
        name.contains("mmproj") && path.extension().is_some_and(is_gguf) && name != own
    });
    let mut files: Vec<_> = files.collect();
    let rank = |path: &PathBuf| {
        let name = name(path);
        let shares = name.contains(base(&own));
        (!shares, !is_f16(&name), name)
    };
    files.sort_by_cached_key(rank);
    files
}

/// Whether a file's name says that its weights are F16.
fn is_f16(name: &str) -> bool {
    name.contains("f16") && !name.contains("bf16")
}

/// Returns the name of a model without its extension and its format: "model-q4_k_m.gguf" is "model".
fn base(name: &str) -> &str {
    let stem = name.strip_suffix(".gguf").unwrap_or(name);
    let is_format = |part: &str| {
        let mut letters = part.chars();
        let quantized = part.strip_prefix("iq").or_else(|| part.strip_prefix('q'));
        let is_number = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
        quantized.is_some_and(is_number)
            || part.starts_with("bf16")
            || matches!(
                (letters.next(), part.get(1..)),
                (Some('f'), Some("16" | "32"))
            )
    };
    match stem.rfind(['-', '.']) {
        Some(at) if is_format(&stem[at + 1..]) => &stem[..at],
        _ => stem,
    }
}

/// Whether the first candidate is a better guess than the second: their names differ in more than their format.
pub(super) fn is_clear(model: &Path, first: &Path, second: &Path) -> bool {
    let name = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.to_lowercase()
    };
    let own = name(model);
    let [first, second] = [first, second].map(name);
    let shares = |name: &str| name.contains(base(&own));
    shares(&first) && !shares(&second) || is_f16(&first) && !is_f16(&second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tower_next_to_a_model_shares_its_name_or_is_f16() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = |name: &str| folder.path().join(name);
        let names = [
            "gemma-3-4b-it-Q4_K_M.gguf",
            "mmproj-F32.gguf",
            "mmproj-other-BF16.gguf",
            "mmproj-F16.gguf",
            "mmproj-gemma-3-4b-it-f32.gguf",
            "notes-mmproj.txt",
        ];
        for name in names {
            std::fs::write(path(name), "").expect("it is written");
        }
        let model = path(names[0]);
        let found = TowerFile::Found.candidates(&model);
        let order = [4, 3, 1, 2].map(|at| path(names[at]));
        assert_eq!(found, order);
        assert!(is_clear(&model, &found[0], &found[1]));
        assert!(is_clear(&model, &found[1], &found[2]));
        assert!(!is_clear(&model, &found[2], &found[3]));
        assert_eq!(TowerFile::None.candidates(&model), Vec::<PathBuf>::new());
        let names = [
            "a.q8_0.gguf",
            "a-b-iq2_xs.gguf",
            "quick-f16.gguf",
            "a-fast.gguf",
        ];
        assert_eq!(names.map(base), ["a", "a-b", "quick", "a-fast"]);
    }
}

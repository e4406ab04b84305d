//! The models that suit each board, from `table.toml`: what they take, and the speed that a board's memory allows.
//!
//! Speeds are projections, not measurements: 70% of the memory's speed over the bytes that each token reads.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::view::columns;

const TABLE: &str = include_str!("table.toml");

/// Where `pull` puts models, and `setup` looks for them.
pub(crate) const FOLDER: &str = "/var/lib/ganglion/models";

/// Boards, and the bytes a second of their memory.
const BOARDS: &[(&str, f64)] = &[
    ("Nano 8 GB", 102.4e9),
    ("NX 16 GB", 102.4e9),
    ("AGX 64 GB", 204.8e9),
];

/// What of a memory's speed decoding reaches.
const REACHED: f64 = 0.7;

/// Tokens of the conversation that the table counts memory for.
const CONTEXT: u64 = 4096;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Model {
    pub(crate) name: String,
    /// Its repository on Hugging Face.
    pub(crate) repository: String,
    /// The commit there.
    pub(crate) revision: String,
    pub(crate) file: String,
    quantization: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
    kv: u64,
    #[serde(rename = "for")]
    suits: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    model: Vec<Model>,
}

/// All of them, the smallest first.
pub(crate) fn all() -> Vec<Model> {
    // A test reads it.
    toml::from_str::<Table>(TABLE).map_or_else(|_| Vec::new(), |table| table.model)
}

/// The one of that name.
pub(crate) fn named(name: &str) -> Option<Model> {
    all().into_iter().find(|model| model.name == name)
}

/// The files that hold a model: itself, or what lies in its folder.
pub(crate) fn files(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else {
        return vec![path.into()];
    };
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| {
        let extension = file.extension().and_then(OsStr::to_str);
        matches!(extension, Some("safetensors" | "json" | "gguf"))
    });
    files.sort();
    files
}

impl Model {
    /// Bytes of the file and of a conversation of `CONTEXT` tokens.
    fn memory(&self) -> u64 {
        self.bytes + CONTEXT * self.kv
    }

    /// Tokens a second with a memory of that speed.
    #[allow(clippy::cast_precision_loss)] // a projection
    fn projection(&self, bandwidth: f64) -> f64 {
        bandwidth * REACHED / self.bytes as f64
    }
}

/// The table that people are shown.
pub(crate) fn table() -> String {
    let gigabytes =
        |bytes: u64| format!("{}.{} GB", bytes / 1_000_000_000, bytes / 100_000_000 % 10);
    let boards: Vec<_> = BOARDS.iter().map(|(board, _)| *board).collect();
    let speeds = format!("projected tokens/s: {}", boards.join(", "));
    let heading = ["name", "quantization", "file", "memory", &speeds, ""].map(str::to_owned);
    let rows = all().into_iter().map(|model| {
        let speeds = BOARDS.iter().map(|(_, speed)| model.projection(*speed));
        let speeds: Vec<_> = speeds.map(|speed| format!("{speed:.0}")).collect();
        let [file, memory] = [model.bytes, model.memory()].map(gigabytes);
        [
            model.name,
            model.quantization,
            file,
            memory,
            speeds.join(", "),
            model.suits,
        ]
    });
    format!(
        "{}memory: the file and a conversation of {CONTEXT} tokens. Speeds are projections, not measured: 70% of the \
         memory's speed over the bytes of the file.\n",
        columns([heading].into_iter().chain(rows))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum;

    #[test]
    fn the_table_is_read_and_its_projections_follow_from_it() {
        let table: Table = toml::from_str(TABLE).expect("the table");
        assert!(table.model.len() >= 5);
        assert!(table.model.is_sorted_by_key(|model| model.bytes));
        for model in &table.model {
            assert_eq!(checksum::parse(&model.sha256).as_ref(), Some(&model.sha256));
            assert_eq!(model.revision.len(), 40, "{}", model.name);
        }
        let model = named("qwen3-4b").expect("a model");
        let speed = model.projection(204.8e9);
        assert!((57.0..58.0).contains(&speed), "{speed}");
        assert_eq!(model.memory(), 2_497_280_256 + 4096 * 147_456);
    }
}

//! The models that suit each board, from `table.toml`. The table for people (`table.txt`) has their memory and the
//! speed that the board's memory allows: projections, not measurements.
//! Not here: downloaded models (`stored`).

use ganglion::projection::{Work, boards};
use serde::{Deserialize, Serialize};

use crate::failure::Outcome;
use crate::view;

const TABLE: &str = include_str!("table.toml");

/// The folder where `pull` puts models, and `setup` looks for them.
pub(crate) const FOLDER: &str = "/var/lib/ganglion/models";

#[derive(Debug, Deserialize, Serialize)]
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
    /// Bytes that do not grow with a conversation: recurrent states, or what windows hold.
    #[serde(default)]
    states: u64,
    #[serde(rename = "for")]
    suits: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    model: Vec<Model>,
}

/// The table for people.
#[derive(Serialize)]
struct Listing {
    boards: Vec<String>,
    model: Vec<Listed>,
}

/// A model with its projected speed on each board.
#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    model: Model,
    speeds: Vec<f64>,
}

/// The tokens of a conversation at which speeds are projected.
const TOKENS: u64 = 512;

impl Listed {
    #[allow(clippy::cast_precision_loss)] // shown to two digits
    fn of(model: Model) -> Self {
        let work = Work {
            step_bytes: (model.bytes + TOKENS * model.kv) as f64,
            // Only prompts depend on them.
            products: f64::INFINITY,
        };
        let boards = boards();
        let speeds = boards
            .iter()
            .filter_map(|board| Some(board.limits(board.fastest()?).decode(work)));
        let speeds = speeds.collect();
        Self { model, speeds }
    }
}

fn shipped() -> Table {
    // A test reads it.
    toml::from_str(TABLE).unwrap_or_default()
}

/// Returns all models, the smallest first.
pub(crate) fn all() -> Vec<Model> {
    shipped().model
}

/// Returns the model of that name.
pub(crate) fn named(name: &str) -> Option<Model> {
    all().into_iter().find(|model| model.name == name)
}

/// Returns the table for people.
pub(crate) fn table() -> Outcome<String> {
    let listing = Listing {
        boards: boards().into_iter().map(|board| board.name).collect(),
        model: all().into_iter().map(Listed::of).collect(),
    };
    view::text(include_str!("table.txt"), &listing)
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
        // 70% of 204.7 GB/s over 2.573 GB; the file, and 4096 tokens of 147,456 bytes.
        let shown = super::table().expect("it is filled");
        let line = shown.lines().find(|line| line.starts_with("qwen3-4b "));
        let line = line.expect("a model");
        assert!(line.contains(" 2.4 GB  3.1 GB  28, 28, 56  "), "{line}");
    }
}

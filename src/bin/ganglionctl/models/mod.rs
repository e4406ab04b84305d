//! The models that suit each board, from `table.toml`. The table for people (`table.txt`) has their memory and the
//! speed that the board's memory allows: projections, not measurements.
//! Not here: downloaded models (`stored`).

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

/// A board, and the bandwidth of its memory in bytes per second.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Board {
    name: String,
    bandwidth: f64,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Table {
    board: Vec<Board>,
    model: Vec<Model>,
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
    view::text(include_str!("table.txt"), &shipped())
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
        // 70% of 204.8 GB/s over 2.497 GB; that file, and 4096 tokens of 147,456 bytes.
        let shown = super::table().expect("it is filled");
        let line = shown.lines().find(|line| line.starts_with("qwen3-4b "));
        let line = line.expect("a model");
        assert!(line.contains(" 2.4 GB  3.1 GB  29, 29, 57  "), "{line}");
    }
}

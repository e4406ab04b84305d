//! The file that `verify` writes: facts of the machine, results, figures, and the text for people. It holds no prompt, no
//! answer, and no name of a user or host.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::found::{Item, Results, Verdict};
use super::heat::Sample;
use crate::failure::{Exit, OrFail as _, Outcome, ensure};
use crate::view;

/// The template of the report for people.
const TEMPLATE: &str = include_str!("report.txt");
/// The version of the record's keys.
const FORMAT: u32 = 1;

/// A run of all checks. The keys are stable: scripts read them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    format: u32,
    /// The version of ganglionctl.
    pub(super) version: String,
    /// The time of the end.
    pub(super) time: String,
    pub(super) machine: BTreeMap<String, String>,
    pub(super) items: Vec<Item>,
    pub(super) figures: BTreeMap<String, f64>,
    /// Readings during the long run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    heat: Vec<Sample>,
    /// The report for people.
    #[serde(default)]
    pub(super) text: String,
}

impl Record {
    pub(super) fn new(results: &Results, heat: Vec<Sample>) -> Outcome<Self> {
        let mut record = Self {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").into(),
            time: jiff::Timestamp::now()
                .round(jiff::Unit::Second)
                .map_or_else(|_| String::new(), |time| time.to_string()),
            machine: results.facts.clone(),
            items: results.items(),
            figures: results.figures.clone(),
            heat,
            text: String::new(),
        };
        record.text = view::text(TEMPLATE, &record)?;
        Ok(record)
    }

    /// Reads a file that another run has written.
    pub(super) fn read(file: &Path) -> Outcome<Self> {
        let text = fs::read_to_string(file).or_fail(Exit::Data, file.display())?;
        let record: Self = serde_json::from_str(&text).or_fail(Exit::Data, file.display())?;
        ensure!(
            record.format == FORMAT,
            Data: "{}: its format is {}, and this program reads {FORMAT}: use the ganglionctl of its version",
            file.display(), record.format
        );
        Ok(record)
    }

    pub(super) fn write(&self, file: &Path) -> Outcome {
        let text = serde_json::to_string_pretty(self).or_fail(Exit::Failed, "JSON")?;
        fs::write(file, text + "\n").or_fail(Exit::Failed, format!("--output {}", file.display()))
    }

    pub(super) fn failed(&self) -> bool {
        self.items.iter().any(|item| item.verdict == Verdict::Fail)
    }
}

//! Results of checks, as a part reports them line by line, and as the record holds them.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::checks::CHECKS;

/// The result of a check. A check that was not possible is never passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Verdict {
    #[serde(rename = "PASS")]
    Pass,
    #[serde(rename = "FAIL")]
    Fail,
    #[serde(rename = "NOT RUN")]
    NotRun,
}

/// What a check has found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Found {
    pub(super) verdict: Verdict,
    /// What was observed, or the reason why the check did not run.
    pub(super) observed: String,
    /// What was expected here, if it depends on the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expected: Option<String>,
}

/// A line that a part writes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    Found(String, Found),
    Figure(String, f64),
    /// A fact of the machine.
    Fact(String, String),
}

/// All results so far.
#[derive(Debug, Default)]
pub(super) struct Results {
    found: BTreeMap<String, Found>,
    pub(super) figures: BTreeMap<String, f64>,
    pub(super) facts: BTreeMap<String, String>,
    /// The path of the model, which can contain a user's name, and what is shown instead.
    hidden: Option<(String, String)>,
    /// Whether each result is also written to standard output as a line.
    writes: bool,
}

impl Results {
    /// Returns results that are written line by line, as a part's process does.
    pub(super) fn written() -> Self {
        Self {
            writes: true,
            ..Self::default()
        }
    }

    /// Shows the name of a file instead of its path.
    pub(super) fn hide(&mut self, path: &Path) {
        let name = path.file_name().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        self.hidden = Some((path.display().to_string(), name));
    }

    pub(super) fn pass(&mut self, check: &str, observed: impl Display) {
        self.add(check, Verdict::Pass, observed);
    }

    pub(super) fn fail(&mut self, check: &str, observed: impl Display) {
        self.add(check, Verdict::Fail, observed);
    }

    pub(super) fn not_run(&mut self, check: &str, why: impl Display) {
        self.add(check, Verdict::NotRun, why);
    }

    /// Adds that a check passed or failed.
    pub(super) fn judge(&mut self, check: &str, passed: bool, observed: impl Display) {
        let verdict = if passed { Verdict::Pass } else { Verdict::Fail };
        self.add(check, verdict, observed);
    }

    fn add(&mut self, check: &str, verdict: Verdict, observed: impl Display) {
        let expected = None;
        let observed = observed.to_string();
        let found = Found {
            verdict,
            observed,
            expected,
        };
        self.take(Line::Found(check.into(), found));
    }

    pub(super) fn figure(&mut self, name: &str, value: f64) {
        self.take(Line::Figure(name.into(), value));
    }

    pub(super) fn fact(&mut self, name: &str, value: impl Display) {
        self.take(Line::Fact(name.into(), value.to_string()));
    }

    /// Adds a line of a part.
    pub(super) fn take(&mut self, line: Line) {
        if self.writes
            && let Ok(text) = serde_json::to_string(&line)
        {
            // The parent has gone if this fails, and nobody needs the results.
            let _ = crate::output::print(&format!("{text}\n"));
        }
        match line {
            Line::Found(check, found) => drop(self.found.insert(check, found)),
            Line::Figure(name, value) => drop(self.figures.insert(name, value)),
            Line::Fact(name, value) => drop(self.facts.insert(name, value)),
        }
    }

    /// Replaces what was expected of a check that has a result.
    pub(super) fn expect(&mut self, check: &str, expected: impl Display) {
        if let Some(found) = self.found.get_mut(check) {
            found.expected = Some(expected.to_string());
        }
    }

    pub(super) fn has(&self, check: &str) -> bool {
        self.found.contains_key(check)
    }

    /// Returns the items of the record, one for each check. A check without a result did not run.
    pub(super) fn items(&self) -> Vec<Item> {
        let items = CHECKS.iter().map(|check| {
            let missing = || Found {
                verdict: Verdict::NotRun,
                observed: "an earlier part ended before it".into(),
                expected: None,
            };
            let found = self.found.get(check.name).cloned();
            let found = found.unwrap_or_else(missing);
            let expected = found.expected.unwrap_or_else(|| check.expected.into());
            let observed = match &self.hidden {
                Some((path, name)) => found.observed.replace(path, name),
                None => found.observed,
            };
            Item {
                group: check.group.into(),
                name: check.name.into(),
                verdict: found.verdict,
                expected,
                observed,
                look: check.look.into(),
            }
        });
        items.collect()
    }
}

/// A check with its result. The keys are stable: scripts read them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Item {
    pub(super) group: String,
    pub(super) name: String,
    pub(super) verdict: Verdict,
    pub(super) expected: String,
    pub(super) observed: String,
    #[serde(rename = "look_at")]
    pub(super) look: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_without_a_result_is_not_passed() {
        let mut results = Results::default();
        results.pass("rows", "as alone");
        let items = results.items();
        assert_eq!(items.len(), CHECKS.len());
        let passed = items.iter().filter(|item| item.verdict == Verdict::Pass);
        assert_eq!(passed.count(), 1);
        assert!(items.iter().all(|item| item.verdict != Verdict::Fail));
    }

    #[test]
    fn the_files_to_look_at_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let words = CHECKS.iter().flat_map(|check| check.look.split([' ', ',']));
        let files = words.filter(|word| {
            ["src/", "kernels/", "systemd/"]
                .iter()
                .any(|folder| word.starts_with(folder))
        });
        let mut count = 0;
        for file in files {
            assert!(root.join(file).exists(), "{file}");
            count += 1;
        }
        assert!(count > 5, "{count} files");
    }
}

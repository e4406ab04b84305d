//! A result of a check: the subject, the state and the remedy.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mark {
    Ok,
    /// It works with a drawback, or the state is unknown.
    Warn,
    /// It does not work.
    Fail,
}

/// A result of a check. The keys are stable: scripts read them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Finding {
    mark: Mark,
    /// The subject of the check.
    check: String,
    what: String,
    /// The remedy; `None` if none is needed, or `what` contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

/// All results in the order of the checks.
#[derive(Debug, Default)]
pub(super) struct Findings(pub(super) Vec<Finding>);

impl Findings {
    fn add(&mut self, mark: Mark, check: &str, what: &impl Display, remedy: Option<String>) {
        self.0.push(Finding {
            mark,
            check: check.into(),
            what: what.to_string(),
            remedy,
        });
    }

    pub(super) fn ok(&mut self, check: &str, what: impl Display) {
        self.add(Mark::Ok, check, &what, None);
    }

    pub(super) fn warn(&mut self, check: &str, what: impl Display, remedy: impl Display) {
        self.add(Mark::Warn, check, &what, Some(remedy.to_string()));
    }

    pub(super) fn fail(&mut self, check: &str, what: impl Display, remedy: impl Display) {
        self.add(Mark::Fail, check, &what, Some(remedy.to_string()));
    }

    /// Adds an error whose text contains its remedy.
    pub(super) fn error(&mut self, check: &str, what: impl Display) {
        self.add(Mark::Fail, check, &what, None);
    }

    /// Returns the first failure and its remedy.
    pub(super) fn failed(&self) -> Option<String> {
        let failed = self.0.iter().find(|one| one.mark == Mark::Fail)?;
        Some(match &failed.remedy {
            Some(remedy) => format!("{}; {remedy}", failed.what),
            None => failed.what.clone(),
        })
    }
}

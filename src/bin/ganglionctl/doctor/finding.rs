//! One line of the doctor's: what was looked at, how it is, and what to do.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mark {
    Ok,
    /// It works, but not as well as it could, or it cannot be told.
    Warn,
    /// It does not work.
    Fail,
}

/// The keys are stable: scripts read them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Finding {
    mark: Mark,
    /// What was looked at.
    check: String,
    what: String,
    /// What to do; nothing where there is nothing to do, or `what` says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

/// All lines, in the order in which they were found.
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

    /// An error, which says itself what to do.
    pub(super) fn error(&mut self, check: &str, what: impl Display) {
        self.add(Mark::Fail, check, &what, None);
    }

    /// The first thing that does not work, and what to do.
    pub(super) fn failed(&self) -> Option<String> {
        let failed = self.0.iter().find(|one| one.mark == Mark::Fail)?;
        Some(match &failed.remedy {
            Some(remedy) => format!("{}; {remedy}", failed.what),
            None => failed.what.clone(),
        })
    }
}

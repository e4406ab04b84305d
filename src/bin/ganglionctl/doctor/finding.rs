//! One line of the doctor's: what was looked at, how it is, and what to do.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mark {
    Ok,
    /// It works, but not as well as it could, or it cannot be told.
    Warn,
    /// It does not work.
    Fail,
}

/// The keys are stable: scripts read them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Finding {
    pub(super) mark: Mark,
    /// What was looked at.
    pub(super) check: String,
    pub(super) what: String,
    /// What to do; nothing where there is nothing to do, or `what` says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

impl Finding {
    pub(super) fn new(mark: Mark, check: &str, what: impl Into<String>) -> Self {
        Self {
            mark,
            check: check.into(),
            what: what.into(),
            remedy: None,
        }
    }

    pub(super) fn ok(check: &str, what: impl Into<String>) -> Self {
        Self::new(Mark::Ok, check, what)
    }

    pub(super) fn warn(check: &str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Mark::Warn, check, what).with(remedy)
    }

    pub(super) fn fail(check: &str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Mark::Fail, check, what).with(remedy)
    }

    fn with(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// What, and what to do.
    pub(super) fn told(&self) -> String {
        match &self.remedy {
            Some(remedy) => format!("{}; {remedy}", self.what),
            None => self.what.clone(),
        }
    }

    /// As one line.
    pub(super) fn line(&self) -> String {
        let mark = match self.mark {
            Mark::Ok => "ok  ",
            Mark::Warn => "warn",
            Mark::Fail => "fail",
        };
        let text = format!("{}: {}", self.check, self.told());
        let text: Vec<_> = text.split_whitespace().collect();
        format!("{mark}  {}\n", text.join(" "))
    }
}

//! The reason why the text of a format's file is not valid.

use std::fmt::Debug;

/// A part of a format's file that cannot be used, with the remedy.
#[derive(Debug, thiserror::Error)]
pub enum FormatDefect {
    #[error("line {line}: {message}")]
    Toml {
        /// Counted from 1.
        line: usize,
        message: String,
    },
    #[error("{key} is {value}; {remedy}")]
    Value {
        key: &'static str,
        value: String,
        remedy: &'static str,
    },
}

impl FormatDefect {
    pub(super) fn toml(text: &str, error: &toml::de::Error) -> Self {
        let before = error.span().and_then(|span| text.get(..span.start));
        Self::Toml {
            line: 1 + before.unwrap_or_default().matches('\n').count(),
            message: error.message().to_owned(),
        }
    }

    pub(super) fn value(key: &'static str, value: &impl Debug, remedy: &'static str) -> Self {
        Self::Value {
            key,
            value: format!("{value:?}"),
            remedy,
        }
    }
}

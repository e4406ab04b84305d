//! The items of an answer: thoughts, a text, calls. Each has its JSON as it begins, and as it is.

use serde::Serialize;

use super::super::answer::likelihood;
use crate::engine::Likelihood;

/// An item of an answer.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) id: String,
    pub(super) status: Status,
    pub(super) content: Content,
}

/// What an item says so far.
#[derive(Debug)]
pub(super) enum Content {
    Thoughts(String),
    Text {
        text: String,
        likelihoods: Vec<Likelihood>,
    },
    Call {
        id: String,
        name: String,
        arguments: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    InProgress,
    Completed,
    Incomplete,
}

impl Content {
    /// Returns the beginning of the id of its item.
    const fn prefix(&self) -> &'static str {
        match self {
            Self::Thoughts(_) => "rs",
            Self::Text { .. } => "msg",
            Self::Call { .. } => "fc",
        }
    }
}

impl Item {
    /// Returns the item `index` of the response with these random digits.
    pub(super) fn new(digits: &str, index: usize, content: Content) -> Self {
        Self {
            id: format!("{}_{digits}{index:02x}", content.prefix()),
            status: Status::InProgress,
            content,
        }
    }

    /// Returns its JSON as it begins: without any content.
    pub(super) fn begun(&self) -> ItemJson<'_> {
        match &self.content {
            Content::Call { id, name, .. } => self.call(id, name, ""),
            _ => self.with(Vec::new()),
        }
    }

    /// Returns its JSON.
    pub(super) fn json(&self) -> ItemJson<'_> {
        match &self.content {
            Content::Call {
                id,
                name,
                arguments,
            } => self.call(id, name, arguments),
            _ => self.with(self.part().into_iter().collect()),
        }
    }

    /// Returns the JSON of its only part; `None` if items of its kind have none.
    pub(super) fn part(&self) -> Option<PartJson<'_>> {
        match &self.content {
            Content::Thoughts(text) => Some(PartJson::ReasoningText { text }),
            Content::Text { text, likelihoods } => Some(PartJson::text(text, likelihoods)),
            Content::Call { .. } => None,
        }
    }

    /// Returns the JSON of its only part as that begins.
    pub(super) fn begun_part(&self) -> Option<PartJson<'_>> {
        match &self.content {
            Content::Thoughts(_) => Some(PartJson::ReasoningText { text: "" }),
            Content::Text { .. } => Some(PartJson::text("", &[])),
            Content::Call { .. } => None,
        }
    }

    fn call<'a>(&'a self, call_id: &'a str, name: &'a str, arguments: &'a str) -> ItemJson<'a> {
        ItemJson::FunctionCall {
            id: &self.id,
            status: self.status,
            call_id,
            name,
            arguments,
        }
    }

    fn with<'a>(&'a self, content: Vec<PartJson<'a>>) -> ItemJson<'a> {
        let (id, status) = (&*self.id, self.status);
        match &self.content {
            Content::Thoughts(_) => ItemJson::Reasoning {
                id,
                status,
                summary: [],
                content,
            },
            _ => ItemJson::Message {
                id,
                status,
                role: "assistant",
                content,
            },
        }
    }
}

/// An item in JSON.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ItemJson<'a> {
    Message {
        id: &'a str,
        status: Status,
        role: &'static str,
        content: Vec<PartJson<'a>>,
    },
    Reasoning {
        id: &'a str,
        status: Status,
        summary: [(); 0],
        content: Vec<PartJson<'a>>,
    },
    FunctionCall {
        id: &'a str,
        status: Status,
        call_id: &'a str,
        name: &'a str,
        arguments: &'a str,
    },
}

/// A part of an item in JSON.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum PartJson<'a> {
    OutputText {
        text: &'a str,
        annotations: [(); 0],
        logprobs: Vec<TokenLogprob<'a>>,
    },
    ReasoningText {
        text: &'a str,
    },
}

impl<'a> PartJson<'a> {
    fn text(text: &'a str, likelihoods: &'a [Likelihood]) -> Self {
        Self::OutputText {
            text,
            annotations: [],
            logprobs: logprobs(likelihoods),
        }
    }
}

/// The probability of a token in JSON.
#[derive(Debug, Serialize)]
pub(super) struct TokenLogprob<'a> {
    token: &'a str,
    logprob: f32,
    /// Empty for a part of a character.
    bytes: &'a [u8],
    #[serde(skip_serializing_if = "Option::is_none")]
    top_logprobs: Option<Vec<TokenLogprob<'a>>>,
}

impl<'a> TokenLogprob<'a> {
    fn new(likelihood: &'a Likelihood) -> Self {
        Self {
            token: &likelihood.text,
            logprob: likelihood::logprob(likelihood),
            bytes: likelihood::bytes(likelihood).unwrap_or_default(),
            top_logprobs: None,
        }
    }
}

/// Returns the JSON of the probabilities of some tokens.
pub(super) fn logprobs(likelihoods: &[Likelihood]) -> Vec<TokenLogprob<'_>> {
    likelihoods.iter().map(with_best).collect()
}

fn with_best(likelihood: &Likelihood) -> TokenLogprob<'_> {
    TokenLogprob {
        top_logprobs: Some(likelihood.best.iter().map(TokenLogprob::new).collect()),
        ..TokenLogprob::new(likelihood)
    }
}

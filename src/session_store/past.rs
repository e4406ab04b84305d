//! What the entries of a file amount to: the conversation as it stood after the last of them.

use std::ops::Range;

use serde_json::{Map, Value};

use super::entry::{Entry, Turn};
use crate::model::Message;

/// A conversation as its file tells it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Past {
    /// When it began, in seconds since 1970.
    pub began: u64,
    /// When its last turn ended, or else it began.
    pub used: u64,
    /// What it began with.
    pub messages: Vec<Message>,
    /// What its turns start from.
    pub options: Map<String, Value>,
    pub turns: Vec<PastTurn>,
    /// What was said after the last turn, without an answer.
    pub appended: Vec<Message>,
}

/// One turn, and the conversation's tokens after it.
#[derive(Clone, Debug, PartialEq)]
pub struct PastTurn {
    /// What was appended before it, then what was said in it.
    pub messages: Vec<Message>,
    pub answer: Message,
    pub partial: bool,
    pub thinking: Option<bool>,
    pub tools: Option<String>,
    /// Tokens of its prompt.
    pub prompt: usize,
    /// Whether the tokens of its answer are known.
    pub whole: bool,
    pub context: Context,
}

/// The tokens of a conversation, and who made them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    pub tokens: Vec<u32>,
    /// Those that were decoded (D), in their order; the others were read as prompts (P).
    pub decoded: Vec<Range<usize>>,
}

/// Entries that cannot follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contradiction;

impl Past {
    /// Of a file of this user and name.
    pub(super) fn of(entries: Vec<Entry>, user: u32, name: &str) -> Result<Self, Contradiction> {
        let mut entries = entries.into_iter();
        let Some(Entry::Opened {
            user: of,
            name: named,
            at,
            messages,
            options,
        }) = entries.next()
        else {
            return Err(Contradiction);
        };
        if of != user || named != name {
            return Err(Contradiction);
        }
        let mut past = Self {
            began: at,
            used: at,
            messages,
            options,
            ..Self::default()
        };
        entries.try_for_each(|entry| past.follow(entry))?;
        Ok(past)
    }

    /// What an entry adds to it.
    pub(super) fn follow(&mut self, entry: Entry) -> Result<(), Contradiction> {
        match entry {
            Entry::Opened { .. } => return Err(Contradiction),
            Entry::Options { options } => self.options = options,
            Entry::Appended { messages } => self.appended.extend(messages),
            Entry::Rewound { turns } => {
                self.turns.truncate(turns as usize);
                self.appended.clear();
            }
            Entry::Turn(turn) => self.turn(*turn)?,
        }
        Ok(())
    }

    fn turn(&mut self, turn: Turn) -> Result<(), Contradiction> {
        let nothing = Context::default();
        let before = self.turns.last().map_or(&nothing, |last| &last.context);
        let mut context = before.first(turn.tokens.kept).ok_or(Contradiction)?;
        context.tokens.extend(turn.tokens.prompt);
        let prompt = context.tokens.len();
        let whole = turn.tokens.answer.is_some();
        let answer = turn.tokens.answer.unwrap_or_default();
        let said = turn.tokens.said.min(answer.len());
        context.tokens.extend(answer);
        if said > 0 {
            context.decoded.push(prompt..prompt + said);
        }
        let dropped = turn.dropped as usize;
        if dropped > self.turns.len() {
            return Err(Contradiction);
        }
        self.turns.drain(..dropped);
        let mut messages = std::mem::take(&mut self.appended);
        messages.extend(turn.messages);
        self.used = turn.at;
        self.turns.push(PastTurn {
            messages,
            answer: turn.answer,
            partial: turn.partial,
            thinking: turn.thinking,
            tools: turn.tools,
            prompt,
            whole,
            context,
        });
        Ok(())
    }
}

impl Context {
    /// The first so many tokens; `None` if there are fewer.
    fn first(&self, count: usize) -> Option<Self> {
        let cut = |range: &Range<usize>| range.start..range.end.min(count);
        Some(Self {
            tokens: self.tokens.get(..count)?.to_vec(),
            decoded: self
                .decoded
                .iter()
                .map(cut)
                .filter(|range| !range.is_empty())
                .collect(),
        })
    }
}

//! What the entries of a file amount to: the conversation as it stood after the last of them.

use serde_json::{Map, Value};

use super::entry::{Entry, Turn};
use super::trail::{Contradiction, Trail};
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
    /// The turns that were dropped at the context's end, oldest first, as far as the file still has their text.
    pub dropped: Vec<PastTurn>,
    pub turns: Vec<PastTurn>,
    /// The tokens of these.
    pub trail: Trail,
    /// What was said after the last turn, without an answer.
    pub appended: Vec<Message>,
}

/// What was said in one turn.
#[derive(Clone, Debug, PartialEq)]
pub struct PastTurn {
    /// What was appended before it, then what was said in it.
    pub messages: Vec<Message>,
    pub answer: Message,
    pub partial: bool,
    pub thinking: Option<bool>,
    pub tools: Option<String>,
}

impl Past {
    /// Takes the entries of a file of this user and name.
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
                self.trail.truncate(self.turns.len());
                self.appended.clear();
                if self.turns.is_empty() {
                    self.dropped.clear();
                }
            }
            Entry::Turn(turn) => self.turn(*turn)?,
        }
        Ok(())
    }

    fn turn(&mut self, turn: Turn) -> Result<(), Contradiction> {
        self.trail.follow(turn.tokens)?;
        let dropped = turn.dropped as usize;
        if dropped > self.turns.len() {
            return Err(Contradiction);
        }
        let dropped_turns = self.turns.drain(..dropped);
        self.dropped
            .extend(dropped_turns.filter(PastTurn::has_text));
        self.trail.forget(dropped);
        let mut messages = std::mem::take(&mut self.appended);
        messages.extend(turn.messages);
        // A clock may have been set back.
        self.used = self.used.max(turn.at);
        self.turns.push(PastTurn {
            messages,
            answer: turn.answer,
            partial: turn.partial,
            thinking: turn.thinking,
            tools: turn.tools,
        });
        Ok(())
    }
}

impl PastTurn {
    /// Returns false for a turn of which compaction has kept the tokens alone.
    fn has_text(&self) -> bool {
        has_text(&self.messages, &self.answer)
    }
}

/// Returns whether a turn of these messages and this answer says anything.
pub(super) fn has_text(messages: &[Message], answer: &Message) -> bool {
    !messages.is_empty() || answer.bytes() > 0
}

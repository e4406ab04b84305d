//! The conversation that the entries of a file describe, as of the last entry.

use serde_json::{Map, Value};

use super::entry::{Entry, Turn};
use super::trail::{Contradiction, Trail};
use crate::model::Message;

/// A conversation as its file describes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Past {
    /// When the session began, in seconds since 1970.
    pub began: u64,
    /// When the last turn ended; the beginning if there is no turn.
    pub used: u64,
    /// The messages at the beginning.
    pub messages: Vec<Message>,
    /// The default options of turns.
    pub options: Map<String, Value>,
    /// Turns that were dropped at the context's end, oldest first, as far as the file still has their text.
    pub dropped: Vec<PastTurn>,
    pub turns: Vec<PastTurn>,
    /// The tokens of `turns`.
    pub trail: Trail,
    /// Messages after the last turn, which have no answer.
    pub appended: Vec<Message>,
}

/// The messages of one turn.
#[derive(Clone, Debug, PartialEq)]
pub struct PastTurn {
    /// The messages appended before the turn, then those of the turn.
    pub messages: Vec<Message>,
    pub answer: Message,
    pub partial: bool,
    pub thinking: Option<bool>,
    pub tools: Option<String>,
}

impl Past {
    /// Replays the entries of a file of this user and name.
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

    /// Applies an entry.
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
        // The clock may have been set back.
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

impl Past {
    /// Returns the messages of the conversation, without dropped turns.
    pub fn kept(&mut self) -> impl Iterator<Item = &mut Message> {
        let of_turns = self.turns.iter_mut().flat_map(|turn| &mut turn.messages);
        let begun = self.messages.iter_mut();
        begun.chain(of_turns).chain(&mut self.appended)
    }
}

impl PastTurn {
    /// Returns false for a turn of which compaction has kept only the tokens.
    fn has_text(&self) -> bool {
        has_text(&self.messages, &self.answer)
    }
}

/// Whether a turn of these messages and this answer has any text.
pub(super) fn has_text(messages: &[Message], answer: &Message) -> bool {
    !messages.is_empty() || answer.bytes() > 0
}

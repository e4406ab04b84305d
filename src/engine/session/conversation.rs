//! The conversation of one session: its messages, its turns, and the tokens that they became.
//!
//! It knows no other session, and does not decide whether a turn may begin.

use std::borrow::Cow;
use std::sync::Arc;

use super::answer::Answer;
use super::persistent::Named;
use super::sessions::{Answered, Ended, Session};
use crate::engine::caller::client::Client;
use crate::engine::caller::request::Refusal;
use crate::engine::picture::picture::Picture;
use crate::engine::prompt::encoder::{Encoded, Last};
use crate::kv::FIRST_IMAGE_ROW;
use crate::model::{Message, MessageImage};
use crate::session_store::{Context, Entry, Past as Stored, Tokens, Trail, Turn, now};

/// How many turns before the newest keep more than their tokens.
const REMEMBERED: usize = 8;

impl Session {
    pub(crate) fn new(client: Client, named: Option<Named>, messages: Vec<Message>) -> Self {
        Self {
            client,
            lease: 0,
            named,
            origin: None,
            parent: None,
            head: messages.len(),
            settled: messages.len(),
            messages: Arc::new(messages),
            turn: None,
            prefills_ahead: false,
            uses: 0,
            ended: Vec::new(),
            trail: Trail::default(),
        }
    }

    /// Returns a session from its file.
    pub(crate) fn resumed(client: Client, named: Named, past: Stored) -> Self {
        let mut session = Self::new(client, Some(named), past.messages);
        let mut messages = session.messages.to_vec();
        for turn in past.turns {
            session.ended.push(Ended {
                partial: turn.partial,
                begins: messages.len(),
                thinking: turn.thinking,
                tools: turn.tools.map(Arc::from),
                last: None,
            });
            messages.extend(turn.messages);
            messages.push(turn.answer);
        }
        session.settled = messages.len();
        messages.extend(past.appended);
        session.messages = Arc::new(messages);
        session.trail = past.trail;
        session.restore_last(Vec::new());
        session
    }

    /// Returns the newest turn, which the next one continues.
    pub(super) fn last(&self) -> Option<Last> {
        self.ended.last()?.last.clone()
    }

    /// Restores the newest turn from its tokens, if only those are left. The `pictures` keep their numbers, which the cache
    /// has.
    fn restore_last(&mut self, pictures: Vec<Arc<Picture>>) {
        let (Some(turn), Some(newest)) = (self.ended.last_mut(), self.trail.newest()) else {
            return;
        };
        if turn.last.is_some() {
            return;
        }
        // The numbers of images are not those of pictures. The encoder replaces them.
        let Context {
            mut tokens,
            mut decoded,
        } = self.trail.context();
        let answered = tokens.split_off(newest.asked());
        let said = decoded.pop_if(|range| range.start >= newest.asked());
        // The last message is the answer.
        let Some((message, asked)) = self.messages[..self.settled].split_last() else {
            return;
        };
        let tools = turn.tools.clone();
        let mut prompt =
            Encoded::of_unknown_model((tokens, decoded), asked.len(), turn.thinking, tools);
        prompt.pictures = pictures;
        let answer = Answer {
            message: message.clone(),
            tokens: newest.answer.is_some().then_some(answered),
            said: said.map_or(0, |said| said.len()),
        };
        turn.last = Some(Arc::new((prompt, answer)));
    }

    /// Returns the messages that it began with.
    pub(crate) fn beginning(&self) -> &[Message] {
        &self.messages[..self.head]
    }

    /// Gives the messages that it began with their lost images, from messages that are otherwise the same.
    pub(super) fn show_again(&mut self, messages: &[Message]) {
        let is_lost = |image: &MessageImage| image.image.is_none();
        let has_lost = |message: &Message| message.images.iter().any(is_lost);
        if messages.is_empty() || !self.beginning().iter().any(has_lost) {
            return;
        }
        let begun = Arc::make_mut(&mut self.messages).iter_mut().take(self.head);
        for (message, given) in begun.zip(messages) {
            for (image, again) in message.images.iter_mut().zip(&given.images) {
                if is_lost(image) {
                    image.image.clone_from(&again.image);
                }
            }
        }
    }

    pub(crate) fn turns(&self) -> u32 {
        u32::try_from(self.ended.len()).unwrap_or(u32::MAX)
    }

    /// Returns the tokens of the conversation.
    pub(super) fn context_used(&self) -> u32 {
        u32::try_from(self.trail.length()).unwrap_or(u32::MAX)
    }

    /// Returns the entry of a turn for the session's file.
    pub(super) fn entry(&self, answered: &Answered) -> Entry {
        let gone = self.messages_of(answered.dropped);
        self.stored(Entry::Turn(Box::new(Turn {
            at: now(),
            dropped: answered.dropped,
            messages: answered.messages[self.messages.len() - gone..].to_vec(),
            answer: answered.answer.message.clone(),
            partial: answered.partial,
            thinking: answered.thinking,
            tools: answered.tools.clone(),
            tokens: self.tokens(answered),
        })))
    }

    /// Returns an entry as the session's file has it: with the bytes of images only if the session keeps them.
    pub(super) fn stored(&self, mut entry: Entry) -> Entry {
        if !self.keeps_pictures() {
            entry.lose_images();
        }
        entry
    }

    /// Returns the tokens of a turn, without those that it shares with the turn before it.
    fn tokens(&self, answered: &Answered) -> Tokens {
        let Encoded { prompt, said, .. } = &answered.prompt;
        let prompt = numbered(&prompt.tokens);
        // Without its oldest turns, the conversation shares nothing with them.
        let anew = answered.dropped > 0 && said.is_empty();
        let kept = if anew {
            0
        } else {
            self.trail.common(&prompt, said)
        };
        Tokens {
            kept,
            prompt: prompt[kept..].to_vec(),
            answer: answered.answer.tokens.clone(),
            said: answered.answer.said,
        }
    }

    /// Returns the index of the first message of each turn, and of the messages after the last turn.
    pub(super) fn starts(&self) -> impl Iterator<Item = usize> {
        let starts = self.ended.iter().map(|turn| turn.begins);
        starts.chain([self.settled])
    }

    /// Returns the number of messages of its oldest turns.
    fn messages_of(&self, turns: u32) -> usize {
        let mut starts = self.starts();
        let first = starts.next().unwrap_or(0);
        let kept = turns.checked_sub(1).and_then(|n| starts.nth(n as usize));
        kept.map_or(0, |kept| kept - first)
    }

    /// Drops its oldest turns. The other turns lose their prompts, which included the dropped turns.
    fn drop_oldest(&mut self, turns: u32) {
        let gone = self.messages_of(turns);
        let turns = self.ended.len().min(turns as usize);
        self.ended.drain(..turns);
        self.trail.forget(turns);
        for turn in &mut self.ended {
            turn.begins -= gone;
            turn.last = None;
        }
        self.settled -= gone;
    }

    /// Adds a turn.
    pub(super) fn grow(&mut self, answered: Answered) {
        let tokens = self.tokens(&answered);
        let Answered {
            mut messages,
            dropped,
            prompt,
            answer,
            partial,
            thinking,
            tools,
        } = answered;
        self.trail.push(tokens);
        if dropped > 0 {
            self.drop_oldest(dropped);
        }
        messages.push(answer.message.clone());
        self.ended.push(Ended {
            partial,
            begins: self.settled,
            thinking,
            tools: tools.map(Arc::from),
            last: Some(Arc::new((prompt, answer))),
        });
        if let Some(at) = self.ended.len().checked_sub(REMEMBERED + 2) {
            self.ended[at].last = None;
        }
        self.settled = messages.len();
        self.messages = Arc::new(messages);
    }

    /// Returns the conversation with more messages, unless there are more messages than tokens fit the context.
    pub(crate) fn with(&self, said: &[Message], most: usize) -> Result<Vec<Message>, Refusal> {
        let tokens = self.messages.len() + said.len();
        if tokens > most {
            // Each message has at least one token.
            let context = most;
            return Err(Refusal::ContextFull { tokens, context });
        }
        Ok([&self.messages[..], said].concat())
    }

    /// Adds messages after the last turn, without an answer.
    pub(crate) fn append(&mut self, messages: Vec<Message>) {
        Arc::make_mut(&mut self.messages).extend(messages);
    }

    /// Truncates the messages.
    fn keep(&mut self, messages: usize) {
        if let Some(own) = Arc::get_mut(&mut self.messages) {
            own.truncate(messages);
        } else if messages < self.messages.len() {
            self.messages = Arc::new(self.messages[..messages].to_vec());
        }
    }

    /// Whether a rewind to `turns` turns would remove something.
    pub(crate) fn goes_beyond(&self, turns: u32) -> bool {
        self.turns() > turns || self.messages.len() > self.settled
    }

    /// Rewinds to `turns` turns, and removes messages that were appended since. Returns the number of tokens that are left, if
    /// it had more turns.
    pub(crate) fn rewind(&mut self, turns: u32) -> Option<usize> {
        self.keep(self.settled);
        let turns = self.ended.len().min(turns as usize);
        let pictures = self.last().map(|last| last.0.pictures.clone());
        let first = self.ended.drain(turns..).next()?;
        self.settled = first.begins;
        self.keep(self.settled);
        self.trail.truncate(turns);
        self.restore_last(pictures.unwrap_or_default());
        Some(self.trail.length())
    }
}

/// Returns tokens in which the rows of images have consecutive numbers, in their order. The numbers of pictures are others
/// after a restart.
fn numbered(tokens: &[u32]) -> Cow<'_, [u32]> {
    if tokens.iter().all(|token| *token < FIRST_IMAGE_ROW) {
        return tokens.into();
    }
    let mut next = FIRST_IMAGE_ROW;
    let numbered = tokens.iter().map(|token| {
        if *token < FIRST_IMAGE_ROW {
            return *token;
        }
        let number = next;
        next = next.saturating_add(1);
        number
    });
    numbered.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_images_are_numbered_in_their_order() {
        let first = FIRST_IMAGE_ROW;
        assert_eq!(*numbered(&[1, 2]), [1, 2]);
        let tokens = [1, first + 90, first + 91, 2, first + 7, first + 90];
        let expected = [1, first, first + 1, 2, first + 2, first + 3];
        assert_eq!(*numbered(&tokens), expected);
    }
}

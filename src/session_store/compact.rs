//! Rewrites a session's entries as the fewest that describe the same conversation. Rewound turns disappear. Turns that
//! were dropped at the context's end keep their text, for exports, and the tokens that later turns begin with. This
//! module does no input or output.

use super::entry::{Entry, Tokens, Turn};
use super::past::has_text;
use crate::model::Message;
use crate::model::Role;

/// The bytes of text that compaction keeps of a session's dropped turns, the newest first.
const DROPPED_BYTES: usize = 512 << 10;

/// Compacts the entries of a whole file; `None` if they are not those of a session.
pub(super) fn compact(entries: Vec<Entry>) -> Option<Vec<Entry>> {
    let mut entries = entries.into_iter();
    let mut opened = entries.next()?;
    let Entry::Opened { options, .. } = &mut opened else {
        return None;
    };
    let mut live = Live::default();
    for entry in entries {
        match entry {
            Entry::Opened { .. } => return None,
            Entry::Options { options: newest } => *options = newest,
            Entry::Appended { messages } => live.appended.extend(messages),
            Entry::Rewound { turns } => live.rewind(turns as usize),
            Entry::Turn(turn) => live.follow(*turn),
        }
    }
    Some([opened].into_iter().chain(live.entries()).collect())
}

/// The conversation that the entries so far describe.
#[derive(Default)]
struct Live {
    /// The text of dropped turns whose tokens no later turn needs.
    dropped: Vec<Turn>,
    /// Turns that begin with the conversation before them; their `dropped` counts are zero.
    turns: Vec<Turn>,
    /// The number of turns at the front that were dropped. Their text stays, and so do their tokens, because later
    /// turns begin with them.
    gone: usize,
    appended: Vec<Message>,
}

impl Live {
    fn follow(&mut self, turn: Turn) {
        self.gone = self.turns.len().min(self.gone + turn.dropped as usize);
        let mut messages = std::mem::take(&mut self.appended);
        messages.extend(turn.messages);
        self.turns.push(Turn {
            dropped: 0,
            messages,
            ..turn
        });
        // Later turns need nothing of earlier ones, as in `Trail::forget`.
        let kept = self.turns.iter().take(self.gone + 1);
        let mut anew = kept.enumerate().filter(|(_, turn)| turn.tokens.kept == 0);
        if let Some((first, _)) = anew.next_back() {
            let unneeded = self.turns.drain(..first).map(|turn| Turn {
                tokens: Tokens::default(),
                ..without_settings(turn)
            });
            self.dropped.extend(unneeded);
            self.gone -= first;
        }
    }

    fn rewind(&mut self, turns: usize) {
        self.turns.truncate(self.gone + turns);
        self.appended.clear();
        if self.turns.len() == self.gone {
            *self = Self::default();
        }
    }

    fn entries(self) -> impl Iterator<Item = Entry> {
        let Self {
            mut dropped,
            mut turns,
            gone,
            appended,
        } = self;
        dropped.extend(turns.drain(..gone).map(without_settings));
        let mut room = Some(DROPPED_BYTES);
        for turn in dropped.iter_mut().rev() {
            room = room.and_then(|room| room.checked_sub(text_bytes(turn)));
            if room.is_none() {
                turn.messages.clear();
                turn.answer = Message::new(Role::Assistant, "");
            }
        }
        let is_used = |turn: &Turn| {
            has_text(&turn.messages, &turn.answer) || turn.tokens != Tokens::default()
        };
        dropped.retain(is_used);
        if let Some(first) = turns.first_mut() {
            first.dropped = u32::try_from(dropped.len()).unwrap_or(u32::MAX);
        }
        let turns = dropped.into_iter().chain(turns);
        let turns = turns.map(|turn| Entry::Turn(Box::new(turn)));
        let appended = (!appended.is_empty()).then_some(Entry::Appended { messages: appended });
        turns.chain(appended)
    }
}

/// The bytes of text of a turn.
fn text_bytes(turn: &Turn) -> usize {
    let messages = turn.messages.iter().chain([&turn.answer]);
    messages.map(Message::bytes).sum()
}

/// Returns a dropped turn without the settings that its prompt was rendered with, and without the bytes of its images.
fn without_settings(mut turn: Turn) -> Turn {
    turn.messages.iter_mut().for_each(Message::lose_images);
    Turn {
        thinking: None,
        tools: None,
        ..turn
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::session_store::Tokens;
    use crate::session_store::past::Past;

    fn opened() -> Entry {
        Entry::Opened {
            user: 1,
            name: "talk".into(),
            at: 7,
            messages: vec![Message::new(Role::System, "be brief")],
            options: Map::new(),
        }
    }

    /// A random next entry of a conversation.
    fn some(random: &mut fastrand::Rng, past: &Past) -> Entry {
        let turns = u32::try_from(past.turns.len()).expect("few");
        let text = |random: &mut fastrand::Rng| format!("{}", random.u16(..));
        match random.u32(0..10) {
            0 => Entry::Options {
                options: Map::from_iter([(text(random), 1.into())]),
            },
            1 | 2 => Entry::Appended {
                messages: vec![Message::new(Role::User, text(random))],
            },
            3 | 4 => Entry::Rewound {
                turns: random.u32(0..=turns),
            },
            _ => {
                let dropped = if random.u32(0..3) == 0 {
                    random.u32(0..=turns)
                } else {
                    0
                };
                let length = past.trail.length();
                Entry::Turn(Box::new(Turn {
                    at: 7,
                    dropped,
                    messages: vec![Message::new(Role::User, text(random))],
                    answer: Message::new(Role::Assistant, text(random)),
                    partial: random.bool(),
                    thinking: None,
                    tools: None,
                    tokens: Tokens {
                        kept: [0, length, random.usize(0..=length)][random.usize(0..3)],
                        prompt: vec![random.u32(..); random.usize(0..3)],
                        answer: random.bool().then(|| vec![random.u32(..); 2]),
                        said: random.usize(0..3),
                    },
                }))
            }
        }
    }

    #[test]
    fn the_text_of_dropped_turns_is_bounded() {
        let turn = |n: u32, dropped| {
            let text = format!("{n} {}", "x".repeat(DROPPED_BYTES / 3));
            Entry::Turn(Box::new(Turn {
                at: 7,
                dropped,
                messages: vec![Message::new(Role::User, text)],
                answer: Message::new(Role::Assistant, "yes"),
                partial: false,
                thinking: None,
                tools: None,
                tokens: Tokens::default(),
            }))
        };
        let turns = (0..6).map(|n| turn(n, u32::from(n > 0)));
        let all: Vec<_> = [opened()].into_iter().chain(turns).collect();
        let fewer = compact(all.clone()).expect("a session's");
        let dropped = |entries| {
            let past = Past::of(entries, 1, "talk").expect("they follow");
            let texts = past.dropped.iter().map(|turn| &turn.messages[0].content);
            texts.map(|text| text[..1].to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(dropped(all), ["0", "1", "2", "3", "4"]);
        assert_eq!(dropped(fewer.clone()), ["3", "4"]);
        assert_eq!(compact(fewer.clone()), Some(fewer));
    }

    #[test]
    fn compacted_entries_describe_the_same_conversation() {
        let past_of =
            |entries: &[Entry]| Past::of(entries.to_vec(), 1, "talk").expect("they follow");
        let mut shorter = 0;
        for seed in 0..500 {
            let random = &mut fastrand::Rng::with_seed(seed);
            let mut entries = vec![opened()];
            let mut fewer = entries.clone();
            for _ in 0..40 {
                let next = some(random, &past_of(&entries));
                entries.push(next.clone());
                fewer.push(next);
                if random.u32(0..4) == 0 {
                    fewer = compact(fewer).expect("a session's");
                }
                assert_eq!(past_of(&fewer), past_of(&entries), "seed {seed}");
            }
            let least = compact(fewer.clone()).expect("a session's");
            assert_eq!(compact(entries.clone()), Some(least.clone()), "seed {seed}");
            shorter += usize::from(2 * least.len() < entries.len());
        }
        assert!(shorter > 250, "{shorter}");
        assert_eq!(compact(vec![]), None);
        assert_eq!(compact(vec![opened(), opened()]), None);
    }
}

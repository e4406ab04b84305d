//! The answers of the scripted engine: the words of the question, repeated.

use crate::engine::caller::request::Options;
use crate::engine::session::answer::Answer;
use crate::model::language::Prompt;
use crate::model::{Message, Role};
use crate::telemetry::FinishReason;

/// A complete answer, which is known before its first token.
pub(super) struct Scripted {
    /// The text of each token.
    pub(super) pieces: Vec<String>,
    pub(super) reason: FinishReason,
    /// The stop string that ended it.
    pub(super) stop: Option<String>,
    /// Whether that ended it within a token.
    cut: bool,
}

impl Scripted {
    /// `sim:`, then the words of the last message, repeated until there are `tokens` (once, if `tokens` is 0),
    /// within `room`, `max_tokens` and the stop strings.
    pub(super) fn new(tokens: usize, room: usize, messages: &[Message], options: &Options) -> Self {
        let question = messages.last().map_or("", |message| &message.content);
        let words = question.split_whitespace();
        let wanted = match tokens {
            0 => 1 + words.clone().count(),
            tokens => tokens,
        };
        let limit = room.min(options.max_tokens);
        let mut pieces: Vec<String> = std::iter::once("sim:".to_owned())
            .chain(words.cycle().map(|word| format!(" {word}")))
            .take(wanted.min(limit))
            .collect();
        let mut reason = match wanted > limit {
            true if room < options.max_tokens => FinishReason::Context,
            true => FinishReason::Length,
            false => FinishReason::Stop,
        };
        let text = pieces.concat();
        let stops = options.stop.iter();
        let stop = stops
            .filter_map(|stop| Some((text.find(stop)?, stop)))
            .min();
        let mut cut = false;
        if let Some((mut left, _)) = stop {
            reason = FinishReason::Stop;
            pieces.retain_mut(|piece| {
                let keep = left.min(piece.len());
                cut |= 0 < keep && keep < piece.len();
                left -= keep;
                piece.truncate(keep);
                keep > 0
            });
        }
        Self {
            pieces,
            reason,
            stop: stop.map(|(_, stop)| stop.clone()),
            cut,
        }
    }

    /// Returns the answer up to a number of pieces.
    pub(super) fn answer(&self, pieces: usize) -> Answer {
        let text = self.pieces[..pieces.min(self.pieces.len())].concat();
        let tokens = Prompt::from_words(text.split_whitespace()).tokens;
        Answer {
            tokens: (!self.cut).then_some(tokens),
            said: 0,
            message: Message::new(Role::Assistant, text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::Parameters;

    fn say(tokens: usize, max_tokens: usize, stop: &[&str]) -> (String, FinishReason, bool) {
        let messages = [Message::new(Role::User, "one two")];
        let options = Options {
            stop: stop.iter().map(ToString::to_string).collect(),
            ..Options::new(max_tokens, Parameters::default())
        };
        let scripted = Scripted::new(tokens, 7, &messages, &options);
        let answer = scripted.answer(scripted.pieces.len());
        (
            answer.message.content,
            scripted.reason,
            answer.tokens.is_some(),
        )
    }

    #[test]
    fn answers_end_by_themselves_by_length_and_by_stop_strings() {
        use FinishReason::{Context, Length, Stop};
        assert_eq!(say(0, 9, &[]), ("sim: one two".into(), Stop, true));
        assert_eq!(say(5, 9, &[]), ("sim: one two one two".into(), Stop, true));
        assert_eq!(say(5, 2, &[]), ("sim: one".into(), Length, true));
        assert_eq!(say(9, 8, &["two o"]).1, Stop);
        assert_eq!((say(9, 8, &[]).1, say(9, 7, &[]).1), (Context, Length));
        assert_eq!(say(5, 9, &["e t"]), ("sim: on".into(), Stop, false));
        assert_eq!(say(5, 9, &["zz", " two"]), ("sim: one".into(), Stop, true));
        assert_eq!(say(5, 9, &["sim"]), (String::new(), Stop, true));
    }
}

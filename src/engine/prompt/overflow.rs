//! Drops the oldest turns of a conversation that exceeds the context. The messages that it began with and its tools stay.
//!
//! The first of two rules depends on past turns alone, so that the next prompt can be prefilled ahead. The second rule is for
//! long new messages.

use super::encoder::{Encoded, Encoder, Prepared, Rules};
use crate::engine::caller::request::{Options, Overflow, Refusal};
use crate::engine::session::answer::Answer;
use crate::model::{Message, Role};

/// A conversation whose last message is to be answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Talk {
    pub(crate) messages: Vec<Message>,
    /// The index of the first message of each turn, and of the messages after the last turn.
    pub(crate) turns: Vec<usize>,
    /// The number of its oldest turns that were dropped.
    pub(crate) dropped: u32,
}

impl Talk {
    /// Returns a conversation without turns that can be dropped.
    pub(crate) fn whole(messages: Vec<Message>) -> Self {
        Self {
            messages,
            ..Self::default()
        }
    }

    /// Returns the messages after its turns.
    pub(crate) fn news(&self) -> &[Message] {
        let settled = self.turns.last().copied().unwrap_or(0);
        self.messages.get(settled..).unwrap_or_default()
    }

    /// Returns how many of its oldest turns can be dropped: the result of a tool never stays without its call.
    fn cuts(&self) -> Vec<usize> {
        let calls = |at: usize| {
            self.messages
                .get(at)
                .is_none_or(|next| next.role != Role::Tool)
        };
        let starts = self.turns.iter().enumerate().skip(1);
        let cuts = starts.filter(|(_, at)| calls(**at));
        cuts.map(|(turns, _)| turns).collect()
    }

    fn without(&self, turns: usize) -> Self {
        let (first, kept) = (self.turns[0], self.turns[turns]);
        let left = self.turns[turns..].iter().map(|at| at - (kept - first));
        Self {
            messages: [&self.messages[..first], &self.messages[kept..]].concat(),
            turns: left.collect(),
            dropped: self.dropped + u32::try_from(turns).unwrap_or(u32::MAX),
        }
    }
}

/// Returns a prepared turn, and the conversation without the turns that were dropped.
pub(crate) fn fitted(
    encoder: &Encoder,
    talk: Talk,
    last: Option<&(Encoded, Answer)>,
    options: &Options,
    rules: &Rules,
) -> Result<(Talk, Prepared), Refusal> {
    let (talk, last) = with_room(encoder, talk, last, options, rules);
    let prompt = encoder.prompt(&talk.messages, last, options, rules);
    let talk = match options.overflow {
        Overflow::TruncateOldest => match shortened(encoder, &talk, &prompt, options, rules)? {
            Some(shorter) => {
                let prepared = encoder.prepared(&shorter.messages, None, options, rules)?;
                return Ok((shorter, prepared));
            }
            None => talk,
        },
        Overflow::Error => talk,
    };
    let prepared = encoder.guided(prompt?, options, rules)?;
    Ok((talk, prepared))
}

/// The previous turn, if it is known.
type Before<'a> = Option<&'a (Encoded, Answer)>;

/// Returns the conversation without the turns that are dropped, and the previous turn if none is.
pub(crate) fn shorter<'a>(
    encoder: &Encoder,
    talk: Talk,
    last: Before<'a>,
    options: &Options,
    rules: &Rules,
) -> Result<(Talk, Before<'a>), Refusal> {
    if options.overflow == Overflow::Error {
        return Ok((talk, last));
    }
    let (talk, last) = with_room(encoder, talk, last, options, rules);
    let prompt = encoder.prompt(&talk.messages, last, options, rules);
    let shorter = shortened(encoder, &talk, &prompt, options, rules)?;
    Ok(shorter.map_or((talk, last), |shorter| (shorter, None)))
}

/// Drops the fewest turns that leave a quarter of the context free, or else all turns. Returns `None` if the conversation
/// fits, or no turn can be dropped.
fn shortened(
    encoder: &Encoder,
    talk: &Talk,
    prompt: &Result<(Encoded, Option<crate::tools::Writing>), Refusal>,
    options: &Options,
    rules: &Rules,
) -> Result<Option<Talk>, Refusal> {
    let context = encoder.context();
    let quarter = context / 4;
    let is_over = match prompt {
        // The answer should not end at the end of the context while old turns can be dropped.
        Ok((full, _)) => full.prompt.tokens.len() + options.max_tokens.min(quarter) > context,
        Err(refusal) => is_full(refusal),
    };
    if !is_over {
        return Ok(None);
    }
    let cuts = talk.cuts();
    let shorter = fewest(encoder, talk, &cuts, context - quarter, options, rules)?;
    Ok(shorter.or_else(|| cuts.last().map(|all| talk.without(*all))))
}

/// Drops the fewest turns that leave a prompt of at most `most` tokens.
fn fewest(
    encoder: &Encoder,
    talk: &Talk,
    cuts: &[usize],
    most: usize,
    options: &Options,
    rules: &Rules,
) -> Result<Option<Talk>, Refusal> {
    let (mut low, mut high) = (0, cuts.len());
    let mut shorter = None;
    while low < high {
        let middle = usize::midpoint(low, high);
        let without = talk.without(cuts[middle]);
        match encoder.prompt(&without.messages, None, options, rules) {
            Ok((full, _)) if full.prompt.tokens.len() <= most => {
                shorter = Some(without);
                high = middle;
            }
            Ok(_) => low = middle + 1,
            Err(refusal) if is_full(&refusal) => low = middle + 1,
            Err(refusal) => return Err(refusal),
        }
    }
    Ok(shorter)
}

/// The tokens of an ordinary message: an eighth of the context, up to this.
const MESSAGE: usize = 512;

/// Returns the tokens that a turn needs after its past: an ordinary message, and an answer of at most a quarter of the
/// context. Also returns the tokens that are free after turns were dropped: at least an eighth of the context more, so that
/// turns are dropped only once in several turns.
fn needs(context: usize, options: &Options) -> (usize, usize) {
    let (quarter, eighth) = (context / 4, context / 8);
    let message = eighth.min(MESSAGE);
    let answer = options.max_tokens.min(quarter);
    (message + answer, message + quarter.max(answer + eighth))
}

/// Returns whether the context may be too full for an ordinary turn after this one.
pub(crate) fn is_near(encoder: &Encoder, last: &(Encoded, Answer), options: &Options) -> bool {
    let (asked, answer) = last;
    let answered = answer.tokens.as_ref().map_or(0, Vec::len);
    let (needed, _) = needs(encoder.context(), options);
    asked.prompt.tokens.len() + answered + needed > encoder.context()
}

/// Drops the oldest turns if the past alone leaves too little room for an ordinary turn. The newest turn stays. The result
/// does not depend on the new message.
fn with_room<'a>(
    encoder: &Encoder,
    talk: Talk,
    last: Before<'a>,
    options: &Options,
    rules: &Rules,
) -> (Talk, Before<'a>) {
    let is_near = last.is_some_and(|last| is_near(encoder, last, options));
    let Some((newest, starts)) = talk.turns.split_last() else {
        return (talk, last);
    };
    if !is_near || options.overflow == Overflow::Error {
        return (talk, last);
    }
    let mut past = Talk {
        messages: talk.messages[..*newest].to_vec(),
        turns: talk.turns.clone(),
        dropped: 0,
    };
    past.messages.push(Message::new(Role::User, ""));
    let (needed, free) = needs(encoder.context(), options);
    let fits = |most: usize| encoder.context().saturating_sub(most);
    // A template may omit parts of the past, such as thoughts.
    let prompt = encoder.prompt(&past.messages, last, options, rules);
    if prompt.is_ok_and(|(full, _)| full.prompt.tokens.len() <= fits(needed)) {
        return (talk, last);
    }
    let mut cuts = past.cuts();
    cuts.retain(|turns| *turns < starts.len());
    let shorter = fewest(encoder, &past, &cuts, fits(free), options, rules);
    // Encoding the whole prompt reports an error of the template.
    let turns = match shorter {
        Ok(Some(shorter)) => Some(shorter.dropped as usize),
        Ok(None) => cuts.last().copied(),
        Err(_) => None,
    };
    match turns {
        Some(turns) => (talk.without(turns), None),
        None => (talk, last),
    }
}

fn is_full(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::ContextFull { .. } | Refusal::PromptBytes { .. }
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::picture::viewer::Viewer;
    use crate::engine::prompt::codec::Codec;
    use crate::sampler::{Parameters, Partial};

    /// Returns a conversation of `turns` turns, and the newest of them. Words are its tokens.
    fn talk(encoder: &Encoder, turns: usize, news: &str) -> (Talk, (Encoded, Answer)) {
        let mut messages = vec![Message::new(Role::System, "be brief")];
        let mut starts = Vec::new();
        for _ in 0..turns {
            starts.push(messages.len());
            messages.push(Message::new(Role::User, "one two three four five"));
            messages.push(Message::new(Role::Assistant, "one two three four"));
        }
        let answer = Answer {
            message: messages[messages.len() - 1].clone(),
            tokens: Some(vec![1; 4]),
            said: 0,
        };
        let asked = &messages[..messages.len() - 1];
        let (options, rules) = (options(Overflow::Error), rules());
        let prompt = encoder.prompt(asked, None, &options, &rules);
        let (prompt, _) = prompt.expect("it fits");
        starts.push(messages.len());
        messages.push(Message::new(Role::User, news));
        let talk = Talk {
            messages,
            turns: starts,
            dropped: 0,
        };
        (talk, (prompt, answer))
    }

    fn options(overflow: Overflow) -> Options {
        Options {
            overflow,
            ..Options::new(4, Parameters::default())
        }
    }

    fn rules() -> Rules {
        Rules {
            grammar: crate::guide::Limits::USUAL,
            formats: Arc::default(),
            viewer: Viewer::default(),
        }
    }

    /// The context has 40 tokens, each turn nine.
    #[test]
    fn the_same_turns_are_dropped_whatever_the_next_message_is() {
        let encoder = Encoder::new(Codec::Words, 40, 1, Partial::default());
        let dropped = |turns, news: &str, overflow| {
            let (talk, last) = talk(&encoder, turns, news);
            let options = options(overflow);
            let (left, before) = with_room(&encoder, talk, Some(&last), &options, &rules());
            assert_eq!(before.is_none(), left.dropped > 0);
            assert_eq!(is_near(&encoder, &last, &options), turns > 3);
            left.dropped
        };
        let drops = Overflow::TruncateOldest;
        for news in ["", "one", "one two three four five six seven eight nine"] {
            assert_eq!(dropped(3, news, drops), 0);
            assert_eq!(dropped(4, news, drops), 2);
            assert_eq!(dropped(4, news, Overflow::Error), 0);
        }
        // The next drop is some turns away, also if an answer may have a quarter of the context.
        for answer in [0, 4, 2000] {
            let options = Options::new(answer, Parameters::default());
            let (needed, free) = needs(4096, &options);
            assert!(free >= needed + 4096 / 8 && free < 4096 / 2 + 1, "{answer}");
        }
    }
}

//! What becomes of a conversation that the context does not hold any more: whole turns go, the oldest first, until a quarter
//! of the context is free. What the conversation began with stays, as do its tools.

use super::encoder::{Encoded, Encoder, Prepared, Rules};
use super::{Answer, Message, Options, Overflow, Refusal, Role};

/// A conversation whose last message is to be answered.
#[derive(Clone, Debug, Default)]
pub(super) struct Talk {
    pub(super) messages: Vec<Message>,
    /// Where each of its turns begins, and at last where what follows them does.
    pub(super) turns: Vec<usize>,
    /// Its oldest turns that are not in it any more.
    pub(super) dropped: u32,
}

impl Talk {
    /// One that has no turns which could go.
    pub(super) fn whole(messages: Vec<Message>) -> Self {
        Self {
            messages,
            ..Self::default()
        }
    }

    /// What follows its turns.
    pub(super) fn news(&self) -> &[Message] {
        let settled = self.turns.last().copied().unwrap_or(0);
        self.messages.get(settled..).unwrap_or_default()
    }

    /// How many of its oldest turns could go: what a tool says never stays without its call.
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

/// All that a turn needs of the model, and the conversation as far as it fits.
pub(super) fn fitted(
    encoder: &Encoder,
    talk: Talk,
    last: Option<&(Encoded, Answer)>,
    options: &Options,
    rules: &Rules,
) -> Result<(Talk, Prepared), Refusal> {
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

/// The turn before, if there is one that is known.
type Before<'a> = Option<&'a (Encoded, Answer)>;

/// The conversation as a turn would have it, as far as it fits, and the turn before it if that is the one which was.
pub(super) fn shorter<'a>(
    encoder: &Encoder,
    talk: Talk,
    last: Before<'a>,
    options: &Options,
    rules: &Rules,
) -> Result<(Talk, Before<'a>), Refusal> {
    if options.overflow == Overflow::Error {
        return Ok((talk, last));
    }
    let prompt = encoder.prompt(&talk.messages, last, options, rules);
    let shorter = shortened(encoder, &talk, &prompt, options, rules)?;
    Ok(shorter.map_or((talk, last), |shorter| (shorter, None)))
}

/// The conversation without the fewest of its oldest turns that leave a quarter of the context free, or else without all of
/// them; `None` if it may stay as it is, or nothing of it can go.
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
        // An answer is not to end at the context's end where what is old could go instead.
        Ok((full, _)) => full.prompt.tokens.len() + options.max_tokens.min(quarter) > context,
        Err(refusal) => is_full(refusal),
    };
    if !is_over {
        return Ok(None);
    }
    let cuts = talk.cuts();
    let (mut low, mut high) = (0, cuts.len());
    let mut shorter = None;
    while low < high {
        let middle = usize::midpoint(low, high);
        let without = talk.without(cuts[middle]);
        match encoder.prompt(&without.messages, None, options, rules) {
            Ok((full, _)) if full.prompt.tokens.len() <= context - quarter => {
                shorter = Some(without);
                high = middle;
            }
            Ok(_) => low = middle + 1,
            Err(refusal) if is_full(&refusal) => low = middle + 1,
            Err(refusal) => return Err(refusal),
        }
    }
    Ok(shorter.or_else(|| cuts.last().map(|all| talk.without(*all))))
}

fn is_full(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::ContextFull { .. } | Refusal::PromptBytes { .. }
    )
}

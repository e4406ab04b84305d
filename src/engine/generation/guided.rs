//! A generation whose tokens a guide limits: the tokens that may be chosen next, and the tokens that are forced.
//!
//! It asks the guide. It chooses no token, and adds none to the answer.

use super::state::{Allowed, Generation};
use crate::guide::{Guide, GuideError, Next, Soon};
use crate::sampler::{Mask, Promise};
use crate::telemetry::FinishReason;

impl Generation {
    /// Whether a guide limits its tokens.
    pub(crate) fn is_guided(&self) -> bool {
        self.guide.is_some()
    }

    /// Returns the tokens that may be chosen next. Must be called before each step.
    ///
    /// # Errors
    /// If no token may be chosen, and the answer is not complete.
    pub(crate) fn allowed_next(&mut self, vocabulary: usize) -> Result<Allowed, GuideError> {
        self.promise = None;
        self.waits = false;
        let replays = !self.is_current();
        let Some(guide) = self.guide.as_mut().filter(|_| !replays) else {
            return Ok(Allowed::Any);
        };
        Ok(match guide.follows_soon()? {
            // A complete answer has ended.
            Soon::Known(Next::Anything | Next::Nothing) => Allowed::Any,
            Soon::Known(Next::Allowed(mask)) => Allowed::Mask(mask),
            Soon::Known(Next::Forced(tokens)) => tokens.first().map_or(Allowed::Any, |first| {
                Allowed::Mask(Mask::only(*first, vocabulary))
            }),
            Soon::Later(promise) => {
                self.promise = Some(promise.clone());
                Allowed::Pending(promise)
            }
        })
    }

    /// Whether it must wait for a mask: a prefill cannot be repeated as a step can, and a step that found no mask is repeated
    /// only once.
    pub(crate) fn awaits_mask(&self) -> bool {
        let made = |promise: &Promise| matches!(promise.now(), Some(Some(_)));
        let pending = self.promise.as_ref().is_some_and(|promise| !made(promise));
        self.ending.is_some() || pending && (self.waits || !self.is_prefilled())
    }

    /// Returns why no token can be chosen, if the guide has found that meanwhile.
    pub(crate) fn guide_error(&self) -> Option<GuideError> {
        self.guide.as_ref()?.error()
    }

    /// Returns why it ends, if the guide has reported meanwhile that the answer is complete, or that an answer whose end was
    /// pending is not.
    pub(crate) fn reported_end(&self) -> Option<FinishReason> {
        let guide = self.guide.as_ref()?;
        if self.is_complete() {
            Some(FinishReason::Stop)
        } else {
            self.ending.filter(|_| !guide.may_be_over())
        }
    }

    /// Returns at most `most` of the tokens that the guide forces next. They must be passed to `take` before any other.
    pub(crate) fn take_forced(&mut self, most: usize) -> Vec<u32> {
        if self.is_scored() {
            return Vec::new();
        }
        // The last token is chosen.
        let most = most.min(self.tokens_left().saturating_sub(1));
        let replays = !self.is_current();
        let guide = self.guide.as_mut().filter(|_| !replays);
        let forced = guide.map_or_else(Vec::new, |guide| guide.force(most));
        if let Some(proposer) = &mut self.proposer {
            // Guesses of the same step come after them.
            forced.iter().for_each(|token| proposer.push(*token));
            self.forced_seen += forced.len();
        }
        forced
    }

    /// Gives the guide the tokens that a step chose before `take`, so that the next mask is computed while others take their
    /// tokens.
    pub(crate) fn show_guide(&mut self, tokens: &[u32]) {
        let codec = self.encoder.codec();
        let end = tokens.iter().position(|token| codec.is_end(*token));
        let tokens = &tokens[..end.unwrap_or(tokens.len())];
        if self.is_current()
            && !tokens.is_empty()
            && let Some(guide) = &mut self.guide
        {
            guide.take_all(tokens);
            self.shown = true;
        }
    }

    /// Whether its guide has reported that the answer is complete, so that no chosen token follows the forced ones.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_current() && self.guide.as_ref().is_some_and(Guide::is_over)
    }
}

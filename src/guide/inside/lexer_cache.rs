//! A compiled grammar with the lexer states that answers have found.
//!
//! llguidance computes a state when an answer first reaches it, which takes most of a mask's time. Each answer has a
//! copy of the lexer. When it ends, the next answer begins with its states. No mask depends on them.

use std::sync::Arc;

use llguidance::{Matcher, TokenParser};

use super::counting::{Counting, Room};

/// Bytes that answers may add to a grammar's lexer.
const FOUND: usize = 2 << 20;

/// A compiled grammar.
pub(super) struct Compiled {
    /// The parser at the beginning of an answer.
    parser: TokenParser,
    counting: Arc<Counting>,
    /// Bytes of its lexer.
    lexer: usize,
}

impl Compiled {
    pub(super) fn new(mut parser: TokenParser, room: Arc<Room>) -> Self {
        let counting = Arc::new(Counting::new(room));
        parser.bias_computer = counting.clone();
        Self {
            lexer: parser.parser.lexer_stats().num_bytes,
            parser,
            counting,
        }
    }

    /// Returns a matcher for an answer, which shares this lexer.
    pub(super) fn matcher(&self) -> Matcher {
        Matcher::new(Ok(self.parser.clone()))
    }

    /// Returns a copy with a lexer of its own.
    fn copy(&self) -> Self {
        let mut parser = self.parser.deep_clone();
        let counting = Arc::new(self.counting.copy());
        parser.bias_computer = counting.clone();
        Self {
            parser,
            counting,
            ..*self
        }
    }
}

/// A grammar, and the best lexer of its answers.
pub(super) struct LexerCache {
    compiled: Compiled,
    /// The largest size of the lexer.
    most: usize,
}

/// An answer's own lexer.
pub(super) struct AnswerLexer(Compiled);

impl LexerCache {
    pub(super) fn new(compiled: Compiled) -> Self {
        Self {
            most: compiled.lexer + FOUND,
            compiled,
        }
    }

    /// Returns a matcher for a new answer.
    pub(super) fn begin(&self) -> (Matcher, AnswerLexer) {
        let compiled = self.compiled.copy();
        (compiled.matcher(), AnswerLexer(compiled))
    }

    /// Keeps the states that an answer found. A failed answer may have left an incomplete lexer, which is dropped.
    pub(super) fn end(&mut self, AnswerLexer(mut found): AnswerLexer) {
        found.lexer = found.parser.parser.lexer_stats().num_bytes;
        if found.lexer > self.compiled.lexer && found.lexer <= self.most {
            self.compiled = found;
        }
    }
}

#[cfg(test)]
mod tests {
    use llguidance::ParserFactory;
    use llguidance::api::{GrammarInit, TopLevelGrammar};
    use toktrie::InferenceCapabilities;

    use super::*;
    use crate::guide::inside::counting::{self, SLICES};

    const GRAMMAR: &str = r#"start: %json {"type": "string", "maxLength": 40}"#;

    fn compiled() -> Compiled {
        let vocabulary = counting::tests::vocabulary();
        let slices = SLICES.map(str::to_owned);
        let factory = ParserFactory::new(&vocabulary, InferenceCapabilities::default(), &slices);
        let factory = factory.expect("the slices are right");
        let lark = TopLevelGrammar::from_lark(GRAMMAR.into());
        let parser = factory.create_parser_from_init(GrammarInit::Serialized(lark), 0, 0);
        let room = Arc::new(Room::new(&factory));
        Compiled::new(parser.expect("it is a grammar"), room)
    }

    /// Returns the masks of a random answer.
    fn answer(mut matcher: Matcher, seed: u64) -> Vec<Vec<u32>> {
        let (mut random, mut masks) = (fastrand::Rng::with_seed(seed), Vec::new());
        while !matcher.is_stopped() {
            let mask = matcher.compute_mask().expect("it goes on");
            let may: Vec<_> = mask.iter().collect();
            let token = may[random.usize(0..may.len())];
            matcher.consume_token(token).expect("it was allowed");
            masks.push(may);
        }
        masks
    }

    #[test]
    fn an_answer_adds_states_for_the_next_one_and_changes_no_mask() {
        let mut cache = LexerCache::new(compiled());
        let before = cache.compiled.lexer;
        let (matcher, failed) = cache.begin();
        let cold = answer(matcher, 1);
        drop(failed);
        assert_eq!(cache.compiled.lexer, before, "a failed answer adds nothing");
        for seed in 1..20 {
            let (matcher, own_lexer) = cache.begin();
            let masks = answer(matcher, seed);
            assert!(seed > 1 || masks == cold);
            cache.end(own_lexer);
        }
        let lexer = cache.compiled.lexer;
        assert!(
            lexer > before && lexer <= before + FOUND,
            "{before} {lexer}"
        );
        let (matcher, own_lexer) = cache.begin();
        assert_eq!(answer(matcher, 1), cold);
        cache.end(own_lexer);
        assert_eq!(cache.compiled.lexer, lexer, "nothing was new");
    }
}

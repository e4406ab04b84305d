//! Compiled grammars that are kept for whoever asks again, and what answers under them have found out.
//!
//! llguidance finds the states of a grammar's lexer when an answer first gets there, which is much of what a mask takes. Each
//! answer has a lexer of its own, so that none waits for another; when it ends, the next ones begin with what it found. Which
//! masks there are depends on nothing of that.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use llguidance::{Matcher, TokenParser};

use super::Grammar;
use super::room::{Counting, Room};

/// Bytes, about, of compiled grammars that are kept, with what was found.
const KEPT: usize = 64 << 20;
/// What answers may have found of one grammar, for what the next ones begin with: each that waits or runs has a copy of it.
const FOUND: usize = 2 << 20;

/// A compiled grammar.
pub(super) struct Compiled {
    /// Where answers begin.
    parser: TokenParser,
    counting: Arc<Counting>,
    /// About how many it takes: those of its lexer, and others.
    lexer: usize,
    others: usize,
}

impl Compiled {
    pub(super) fn new(mut parser: TokenParser, room: Arc<Room>, others: usize) -> Self {
        let counting = Arc::new(Counting::new(room));
        parser.bias_computer = counting.clone();
        Self {
            lexer: parser.parser.lexer_stats().num_bytes,
            parser,
            counting,
            others,
        }
    }

    /// Goes along with an answer. Its lexer is the one that is here.
    pub(super) fn matcher(&self) -> Matcher {
        Matcher::new(Ok(self.parser.clone()))
    }

    /// The same with a lexer of its own.
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

    const fn bytes(&self) -> usize {
        self.lexer + self.others
    }
}

/// All that are kept. Clones are of the same.
#[derive(Clone, Default)]
pub(super) struct Kept(Arc<Mutex<Shelf>>);

/// Those that were asked for last are at the end.
#[derive(Default)]
struct Shelf {
    each: VecDeque<One>,
    bytes: usize,
    /// How many were ever kept.
    number: u64,
}

struct One {
    number: u64,
    grammar: Grammar,
    compiled: Compiled,
    /// What its lexer may take.
    most: usize,
}

/// What an answer finds out, for those that come after it.
pub(super) struct Lesson {
    kept: Kept,
    number: u64,
    /// What it began with; its lexer is the answer's.
    compiled: Compiled,
    /// Whether nothing is to be learned of it.
    spoiled: AtomicBool,
}

impl Kept {
    /// A grammar, for one answer; `None` if it is not there.
    pub(super) fn get(&self, grammar: &Grammar) -> Option<(Matcher, Lesson)> {
        let mut all = self.lock();
        let at = all.each.iter().position(|one| one.grammar == *grammar)?;
        let one = all.each.remove(at)?;
        let lent = self.lend(&one);
        all.each.push_back(one);
        Some(lent)
    }

    /// Keeps a grammar, for which what was not asked for in the longest time goes as far as it must, and lends it for one answer.
    pub(super) fn put(&self, grammar: Grammar, compiled: Compiled) -> (Matcher, Lesson) {
        let mut all = self.lock();
        all.number += 1;
        let one = One {
            number: all.number,
            grammar,
            most: compiled.lexer + FOUND,
            compiled,
        };
        let lent = self.lend(&one);
        let known = |kept: &One| kept.grammar == one.grammar;
        if one.compiled.bytes() <= KEPT && !all.each.iter().any(known) {
            all.bytes += one.compiled.bytes();
            all.each.push_back(one);
            all.shrink();
        }
        lent
    }

    fn lend(&self, one: &One) -> (Matcher, Lesson) {
        let compiled = one.compiled.copy();
        let matcher = compiled.matcher();
        let lesson = Lesson {
            kept: self.clone(),
            number: one.number,
            compiled,
            spoiled: AtomicBool::new(false),
        };
        (matcher, lesson)
    }

    pub(super) fn count(&self) -> usize {
        self.lock().each.len()
    }

    fn lock(&self) -> MutexGuard<'_, Shelf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    fn shrink(&mut self) {
        while self.bytes > KEPT
            && let Some(gone) = self.each.pop_front()
        {
            self.bytes -= gone.compiled.bytes();
        }
    }
}

impl Lesson {
    /// Its answer failed, maybe in the middle of what is found out.
    pub(super) fn spoil(&self) {
        self.spoiled.store(true, Ordering::Relaxed);
    }
}

impl Drop for Lesson {
    fn drop(&mut self) {
        if self.spoiled.load(Ordering::Relaxed) {
            return;
        }
        // Whoever ends an answer has no time to wait, and the next one may tell as much.
        let Ok(mut all) = self.kept.0.try_lock() else {
            return;
        };
        self.compiled.lexer = self.compiled.parser.parser.lexer_stats().num_bytes;
        let found = self.compiled.lexer;
        let mut each = all.each.iter_mut();
        let of = |one: &&mut One| {
            one.number == self.number && found > one.compiled.lexer && found <= one.most
        };
        let Some(one) = each.find(of) else {
            return;
        };
        // What it was goes with the lesson.
        std::mem::swap(&mut one.compiled, &mut self.compiled);
        let more = found - self.compiled.lexer;
        all.bytes += more;
        all.shrink();
    }
}

#[cfg(test)]
mod tests {
    use llguidance::ParserFactory;
    use llguidance::api::{GrammarInit, TopLevelGrammar};
    use toktrie::InferenceCapabilities;

    use super::*;
    use crate::guide::room::{self, SLICES};

    const GRAMMAR: &str = r#"start: %json {"type": "string", "maxLength": 40}"#;

    fn compiled() -> Compiled {
        let vocabulary = room::tests::vocabulary();
        let slices = SLICES.map(str::to_owned);
        let factory = ParserFactory::new(&vocabulary, InferenceCapabilities::default(), &slices);
        let factory = factory.expect("the slices are right");
        let lark = TopLevelGrammar::from_lark(GRAMMAR.into());
        let parser = factory.create_parser_from_init(GrammarInit::Serialized(lark), 0, 0);
        let room = Arc::new(Room::new(&factory));
        Compiled::new(parser.expect("it is a grammar"), room, 0)
    }

    /// The masks of a random answer, which is another for each seed.
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
    fn what_an_answer_finds_is_there_for_the_next_one_and_changes_no_mask() {
        let grammar = Grammar::Lark(GRAMMAR.into());
        let kept = Kept::default();
        let (matcher, lesson) = kept.put(grammar.clone(), compiled());
        let bytes = || kept.lock().bytes;
        let before = bytes();
        let cold = answer(matcher, 1);
        lesson.spoil();
        drop(lesson);
        assert_eq!(bytes(), before, "it failed");
        for seed in 1..20 {
            let (matcher, lesson) = kept.get(&grammar).expect("it is kept");
            let masks = answer(matcher, seed);
            assert!(seed > 1 || masks == cold);
            drop(lesson);
        }
        let learned = bytes();
        assert!(
            learned > before && learned <= before + FOUND,
            "{before} {learned}"
        );
        let (matcher, lesson) = kept.get(&grammar).expect("it is kept");
        let begins_with = lesson.compiled.lexer;
        assert_eq!(answer(matcher, 1), cold);
        drop(lesson);
        assert_eq!(
            (begins_with, bytes()),
            (learned, learned),
            "nothing was new"
        );
    }
}

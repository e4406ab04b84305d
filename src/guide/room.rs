//! What may follow in the middle of a text of bounded length.
//!
//! Near the end of such a text llguidance walks the whole vocabulary, for none of its slices fits what is left of it: a
//! millisecond and more. But which plain characters follow hardly matters there, only how many do. This asks the lexer how
//! many of them have room, and whether it is the same for all of them; if so, the tokens that fit are known beforehand, and
//! only those that are not plain are walked. Where it is not so, all is left to llguidance. The masks are the same.

use std::ops::RangeInclusive;
use std::sync::Arc;

use llguidance::ParserFactory;
use llguidance::derivre::StateID;
use llguidance::earley::{BiasComputer, ParserRecognizer};
use toktrie::{Recognizer as _, SimpleVob, TokTrie};

/// Characters that are counted: whatever has room for more is for llguidance's slices.
const MOST: usize = 15;

/// Slices of the vocabulary that are allowed as a whole, or not: white space, and plain characters, of which tokens have one
/// more than are counted here, many, or any number.
pub(super) const SLICES: [&str; 4] = [
    r"[\x20\x0A\x0D\x09]+",
    r#"[^"\\\x00-\x1F\x7F]{1,16}"#,
    r#"[^"\\\x00-\x1F\x7F]{1,30}"#,
    r#"[^"\\\x00-\x1F\x7F]+"#,
];

/// Bytes that may stand for each other.
type Bytes = RangeInclusive<u8>;

/// How plain characters are spelled in UTF-8: all but quotes, backslashes and control characters.
const PLAIN: [&[Bytes]; 11] = [
    &[b' '..=b'!'],
    &[b'#'..=b'['],
    &[b']'..=b'~'],
    &[0xC2..=0xDF, 0x80..=0xBF],
    &[0xE0..=0xE0, 0xA0..=0xBF, 0x80..=0xBF],
    &[0xE1..=0xEC, 0x80..=0xBF, 0x80..=0xBF],
    &[0xED..=0xED, 0x80..=0x9F, 0x80..=0xBF],
    &[0xEE..=0xEF, 0x80..=0xBF, 0x80..=0xBF],
    &[0xF0..=0xF0, 0x90..=0xBF, 0x80..=0xBF, 0x80..=0xBF],
    &[0xF1..=0xF3, 0x80..=0xBF, 0x80..=0xBF, 0x80..=0xBF],
    &[0xF4..=0xF4, 0x80..=0x8F, 0x80..=0xBF, 0x80..=0xBF],
];

/// A character of all of them.
const ONE: u8 = b' ';

/// Computes masks, by counting where that is enough.
pub(super) struct Room {
    sliced: Arc<dyn BiasComputer>,
    /// These plain tokens fit, by how many characters have room.
    fits: Vec<SimpleVob>,
    /// Tokens that are not plain, among them parts of characters.
    others: TokTrie,
}

impl Room {
    pub(super) fn new(factory: &ParserFactory) -> Self {
        let trie = factory.tok_env().tok_trie();
        let mut fits = vec![trie.alloc_token_set(); MOST + 1];
        let mut others = trie.alloc_token_set();
        for (token, bytes) in (0..).zip(trie.all_tokens()) {
            match plain_chars(&bytes) {
                _ if bytes.is_empty() => {}
                None => others.allow_token(token),
                Some(chars) => {
                    for fits in fits.iter_mut().skip(chars) {
                        fits.allow_token(token);
                    }
                }
            }
        }
        Self {
            sliced: factory.slicer(),
            fits,
            others: trie.filter(&others),
        }
    }

    /// `None` where counting is not enough.
    fn by_counting(&self, lexer: &mut ParserRecognizer<'_>) -> Option<SimpleVob> {
        lexer.trie_started("room");
        let room = room(lexer);
        lexer.trie_finished();
        let mut mask = self.fits.get(room?)?.clone();
        self.others.add_bias(lexer, &mut mask, &[]);
        Some(mask)
    }
}

impl BiasComputer for Room {
    fn compute_bias(&self, lexer: &mut ParserRecognizer<'_>, start: &[u8]) -> SimpleVob {
        let counted = if start.is_empty() {
            self.by_counting(lexer)
        } else {
            None
        };
        counted.unwrap_or_else(|| self.sliced.compute_bias(lexer, start))
    }

    fn trie(&self) -> &TokTrie {
        self.sliced.trie()
    }
}

/// Characters of a token that has no others than plain ones.
fn plain_chars(token: &[u8]) -> Option<usize> {
    let plain = |c: char| !matches!(c, '\0'..='\x1F' | '"' | '\\' | '\x7F');
    let token = std::str::from_utf8(token).ok()?;
    token.chars().all(plain).then(|| token.chars().count())
}

/// How many plain characters may follow, whichever they are, and no more; `None` if that depends on them, or is not counted.
fn room(lexer: &mut ParserRecognizer<'_>) -> Option<usize> {
    if !stays(lexer) {
        return None;
    }
    // Most texts have room for many, which one character tells.
    let mut most = 0;
    while most <= MOST && lexer.try_push_byte(ONE) {
        most += 1;
    }
    lexer.pop_bytes(most);
    if most > MOST {
        return None;
    }
    for room in 0..=most {
        if one_char(lexer)? == Leads::Nowhere {
            return Some(room);
        }
        // All lead there, so that this one stands for them.
        lexer.try_push_byte(ONE);
    }
    None
}

/// Where characters lead, all of them alike.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leads {
    Nowhere,
    To(StateID),
}

/// What was found: where the rest of a character leads from a state in its middle.
type Found = Vec<(StateID, &'static [Bytes], Leads)>;

/// Where the next plain character leads; `None` if that depends on it.
fn one_char(lexer: &mut ParserRecognizer<'_>) -> Option<Leads> {
    let mut found = Found::new();
    alike(
        PLAIN
            .into_iter()
            .map(|bytes| spelled(lexer, bytes, &mut found)),
    )
}

fn spelled(
    lexer: &mut ParserRecognizer<'_>,
    bytes: &'static [Bytes],
    found: &mut Found,
) -> Option<Leads> {
    let (first, rest) = bytes.split_first()?;
    alike(first.clone().map(|byte| {
        if !lexer.try_push_byte(byte) {
            return Some(Leads::Nowhere);
        }
        let leads = from_here(lexer, rest, found);
        lexer.pop_bytes(1);
        leads
    }))
}

fn from_here(
    lexer: &mut ParserRecognizer<'_>,
    rest: &'static [Bytes],
    found: &mut Found,
) -> Option<Leads> {
    let state = lexer.lexer_state();
    let known = found
        .iter()
        .find(|(at, bytes, _)| *at == state && *bytes == rest);
    if let Some((_, _, leads)) = known {
        return Some(*leads);
    }
    if !stays(lexer) {
        return None;
    }
    let leads = if rest.is_empty() {
        Leads::To(state)
    } else {
        spelled(lexer, rest, found)?
    };
    found.push((state, rest, leads));
    Some(leads)
}

/// What all of them are; the first that differs ends it.
fn alike(mut all: impl Iterator<Item = Option<Leads>>) -> Option<Leads> {
    let first = all.next()??;
    all.all(|one| one == Some(first)).then_some(first)
}

/// Whether the next byte belongs to what the lexer reads now: where nothing can end here, the state of the lexer is all that
/// says what may follow.
fn stays(lexer: &mut ParserRecognizer<'_>) -> bool {
    let state = lexer.lexer_state();
    let lexer = lexer.lexer_mut();
    lexer.subsume_possible(state) && lexer.try_lexeme_end(state).is_error()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use llguidance::Matcher;
    use llguidance::api::{GrammarInit, TopLevelGrammar};
    use toktrie::{InferenceCapabilities, TokEnv, TokRxInfo, TokenId, TokenizerEnv};

    use super::*;

    const GRAMMARS: [&str; 10] = [
        r#"start: %json {"type": "string", "maxLength": 6}"#,
        r#"start: %json {"type": "string", "minLength": 3, "maxLength": 5}"#,
        r#"start: %json {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 3}"#,
        r#"start: %json {"type": "string", "maxLength": 40}"#,
        r#"start: %json {"anyOf": [{"type": "string", "maxLength": 2}, {"type": "string", "pattern": "^[ab]{4,9}$"}]}"#,
        r#"start: %json {"type": "string", "pattern": "^[a-z ]{0,12}$"}"#,
        r#"start: %json {"enum": ["a robot", "ab"]}"#,
        // Characters that lead to the same state of the lexer, though what may follow is not the same.
        "start: A X X | B X X X X\nA: /[ !#-\\[\\]-m]/\nB: /[n-~\\u{80}-\\u{10FFFF}]/\nX: /[ !#-\\[\\]-~\\u{80}-\\u{10FFFF}]/",
        // What may end before each character, and what ends as soon as it can.
        "start: /[^a]{0,7}/ /[0-9]+/",
        "start: text \"b\"\ntext[lazy]: /(.|\n){0,6}/ \"x\"",
    ];

    struct Vocabulary(TokTrie);

    impl TokenizerEnv for Vocabulary {
        fn tok_trie(&self) -> &TokTrie {
            &self.0
        }

        fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
            self.0.greedy_tokenize(bytes)
        }
    }

    /// An end, all bytes, texts of one to twenty characters of one to four bytes, and some that are not plain.
    fn vocabulary() -> TokEnv {
        let mut tokens = vec![b"\xFF</s>".to_vec()];
        tokens.extend((0..=255).map(|byte| vec![byte]));
        for text in ["ab", "a robot", "\u{e9}", "\u{673a}\u{5668}", "\u{1f916}"] {
            tokens.extend((1..=20).map(|chars| {
                text.chars()
                    .cycle()
                    .take(chars)
                    .collect::<String>()
                    .into_bytes()
            }));
        }
        let others = [
            "ab\"", "\", \"", "\"]", "a\\", "\\u00", "\n\t ", "a\u{7f}b", "\u{80}",
        ];
        tokens.extend(others.map(|text| text.as_bytes().to_vec()));
        // The last byte of a character and the next one.
        tokens.push(b"\xA9ab".to_vec());
        tokens.sort();
        tokens.dedup();
        let end = tokens
            .iter()
            .position(|token| token.len() > 1 && token[0] == 0xFF);
        let end = u32::try_from(end.expect("it is there")).expect("it is small");
        let count = u32::try_from(tokens.len()).expect("they are few");
        Arc::new(Vocabulary(TokTrie::from(
            &TokRxInfo::new(count, end),
            &tokens,
        )))
    }

    /// Says what a walk through the whole vocabulary says, after it was found to be the same.
    struct Compared {
        room: Room,
        masks: AtomicUsize,
        counted: AtomicUsize,
    }

    impl BiasComputer for Compared {
        fn compute_bias(&self, lexer: &mut ParserRecognizer<'_>, start: &[u8]) -> SimpleVob {
            let mut walked = self.trie().alloc_token_set();
            self.trie().add_bias(lexer, &mut walked, start);
            let mask = self.room.compute_bias(lexer, start);
            assert_eq!(
                mask.iter().collect::<Vec<_>>(),
                walked.iter().collect::<Vec<_>>()
            );
            let counted = start.is_empty() && self.room.by_counting(lexer).is_some();
            self.masks.fetch_add(1, Ordering::Relaxed);
            self.counted.fetch_add(counted.into(), Ordering::Relaxed);
            walked
        }

        fn trie(&self) -> &TokTrie {
            self.room.trie()
        }
    }

    /// Random answers: wherever one stands, the mask is that of a walk through the whole vocabulary.
    #[test]
    fn masks_are_those_of_walking_all_tokens() {
        let slices = SLICES.map(str::to_owned);
        let vocabulary = vocabulary();
        let mut factory =
            ParserFactory::new(&vocabulary, InferenceCapabilities::default(), &slices)
                .expect("the slices are right");
        factory.quiet();
        let compared = Arc::new(Compared {
            room: Room::new(&factory),
            masks: AtomicUsize::new(0),
            counted: AtomicUsize::new(0),
        });
        let mut random = fastrand::Rng::with_seed(7);
        for grammar in GRAMMARS {
            let lark = TopLevelGrammar::from_lark(grammar.into());
            let parser = factory.create_parser_from_init(GrammarInit::Serialized(lark), 0, 0);
            let mut parser = parser.expect("it is a grammar");
            parser.bias_computer = compared.clone();
            let first = Matcher::new(Ok(parser));
            for _ in 0..40 {
                let mut matcher = first.deep_clone();
                while !matcher.is_stopped() {
                    let mask = matcher.compute_mask();
                    let mask = mask.unwrap_or_else(|error| panic!("{grammar}: {error}"));
                    let may: Vec<_> = mask.iter().collect();
                    let token = may[random.usize(0..may.len())];
                    matcher.consume_token(token).expect("it was allowed");
                }
            }
        }
        let [masks, counted] =
            [&compared.masks, &compared.counted].map(|count| count.load(Ordering::Relaxed));
        assert!(counted > 300 && masks > 2 * counted, "{counted} of {masks}");
    }
}

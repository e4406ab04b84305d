//! Computes masks in the middle of a text by counting characters.
//!
//! llguidance allows plain characters there by slices of the vocabulary, and walks the tree of all other tokens. That
//! takes a quarter of a millisecond whenever a bounded text grows, and longer near its end, where no slice fits. But
//! the next plain characters usually do not matter, only their number.
//!
//! This asks the lexer how many plain characters have room, and whether all of them lead to the same state. If so, the
//! plain tokens that fit are known in advance. Of the other tokens, those that differ only in their leading plain
//! characters are walked once. In all other cases llguidance computes the mask. The masks are the same.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;

use llguidance::ParserFactory;
use llguidance::derivre::StateID;
use llguidance::earley::{BiasComputer, ParserRecognizer};
use parking_lot::{Mutex, MutexGuard};
use toktrie::{SimpleVob, TokRxInfo, TokTrie, TokenId};

/// The number of characters that are counted, with and without certain room for a long text. Few tokens have more plain
/// characters in a row.
const FEW: usize = 4;
const MANY: usize = 16;

/// Slices of the vocabulary that llguidance allows or forbids as a whole: white space, and plain characters, of which
/// tokens have some, many, or any number.
pub(super) const SLICES: [&str; 4] = [
    r"[\x20\x0A\x0D\x09]+",
    r#"[^"\\\x00-\x1F\x7F]{1,16}"#,
    r#"[^"\\\x00-\x1F\x7F]{1,30}"#,
    r#"[^"\\\x00-\x1F\x7F]+"#,
];
/// The slice that shows that a text of this many characters has room, and the cost limit of the check.
const LONG: usize = 2;
const LONG_CHARS: usize = 30;
const LONG_COST: u64 = 1000;

/// A range of interchangeable bytes.
type Bytes = RangeInclusive<u8>;

/// The UTF-8 encodings of plain characters: all but quotes, backslashes and control characters.
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

/// A character that represents all of them.
const ONE: u8 = b' ';

/// Tokens whose leading plain characters are counted, each with `ONE` in their place.
struct Represented {
    trie: TokTrie,
    /// The tokens that each of these represents.
    stands_for: Vec<Vec<TokenId>>,
}

impl Represented {
    fn new(all: &TokTrie, counted: usize, is_one: impl Fn(&Plain<'_>) -> bool) -> Self {
        let mut alike = BTreeMap::<_, Vec<_>>::new();
        for (token, bytes) in (0..).zip(all.all_tokens()) {
            if is_one(&after_plain(&bytes, usize::MAX)) {
                let Plain { chars, rest } = after_plain(&bytes, counted);
                let alike = alike.entry([&[ONE].repeat(chars), rest].concat());
                alike.or_default().push(token);
            }
        }
        let (alike, stands_for): (Vec<_>, Vec<_>) = alike.into_iter().unzip();
        let count = TokenId::try_from(alike.len()).unwrap_or(TokenId::MAX);
        Self {
            trie: TokTrie::from(&TokRxInfo::new(count, 0), &alike),
            stands_for,
        }
    }

    /// Adds the represented tokens that may follow to a mask.
    fn add(&self, mask: &mut SimpleVob, lexer: &mut ParserRecognizer<'_>) {
        let mut may = self.trie.alloc_token_set();
        self.trie.add_bias(lexer, &mut may, &[]);
        for alike in may.iter() {
            for token in self.stands_for.get(alike as usize).into_iter().flatten() {
                mask.allow_token(*token);
            }
        }
    }
}

/// The tokens of a vocabulary, by their leading plain characters.
pub(super) struct Room {
    sliced: Arc<dyn BiasComputer>,
    /// The plain tokens that fit if a long text has room, and all others.
    long: (SimpleVob, Represented),
    /// By the number of characters that have room: the plain tokens that fit, and all others.
    fits: (Vec<SimpleVob>, Represented),
}

impl Room {
    pub(super) fn new(factory: &ParserFactory) -> Self {
        let trie = factory.tok_env().tok_trie();
        let mut long = trie.alloc_token_set();
        let mut fits = vec![trie.alloc_token_set(); MANY + 1];
        for (token, bytes) in (0..).zip(trie.all_tokens()) {
            let plain = after_plain(&bytes, usize::MAX);
            if plain.is_within(LONG_CHARS) {
                long.allow_token(token);
            }
            for (room, fits) in fits.iter_mut().enumerate() {
                if plain.is_within(room) {
                    fits.allow_token(token);
                }
            }
        }
        let beyond = |chars| move |plain: &Plain<'_>| !plain.is_empty() && !plain.is_within(chars);
        Self {
            sliced: factory.slicer(),
            long: (long, Represented::new(trie, FEW, beyond(LONG_CHARS))),
            fits: (fits, Represented::new(trie, MANY, beyond(MANY))),
        }
    }
}

/// The targets of plain characters from states of a lexer; `None` if they differ by character.
type Known = HashMap<StateID, Option<Leads>>;

/// Computes masks with one lexer, by counting if that is sufficient.
pub(super) struct Counting {
    room: Arc<Room>,
    known: Mutex<Known>,
}

impl Counting {
    pub(super) fn new(room: Arc<Room>) -> Self {
        Self {
            room,
            known: Mutex::default(),
        }
    }

    /// Returns a copy for a copied lexer, whose states are the same so far.
    pub(super) fn copy(&self) -> Self {
        Self {
            room: self.room.clone(),
            known: Mutex::new(self.known().clone()),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    /// Computes a mask by counting; `None` if counting is not sufficient.
    fn by_counting(&self, lexer: &mut ParserRecognizer<'_>) -> Option<SimpleVob> {
        let mut known = self.known();
        let few = room(lexer, FEW, &mut known)?;
        if few == FEW && has_room_for_long(lexer) {
            let (long, others) = &self.room.long;
            let mut mask = long.clone();
            others.add(&mut mask, lexer);
            return Some(mask);
        }
        let room = room(lexer, MANY, &mut known)?;
        let (fits, others) = &self.room.fits;
        let mut mask = fits.get(room)?.clone();
        others.add(&mut mask, lexer);
        Some(mask)
    }
}

impl BiasComputer for Counting {
    fn compute_bias(&self, lexer: &mut ParserRecognizer<'_>, start: &[u8]) -> SimpleVob {
        let counted = if start.is_empty() {
            self.by_counting(lexer)
        } else {
            None
        };
        counted.unwrap_or_else(|| self.room.sliced.compute_bias(lexer, start))
    }

    fn trie(&self) -> &TokTrie {
        self.room.sliced.trie()
    }
}

/// The counted plain characters at the beginning of a token, and the remainder.
struct Plain<'a> {
    chars: usize,
    rest: &'a [u8],
}

impl Plain<'_> {
    /// Whether the token is empty, as for unused ids.
    const fn is_empty(&self) -> bool {
        self.chars == 0 && self.rest.is_empty()
    }

    /// Whether the token consists of at most `chars` plain characters.
    const fn is_within(&self, chars: usize) -> bool {
        self.rest.is_empty() && self.chars > 0 && self.chars <= chars
    }
}

fn after_plain(token: &[u8], counted: usize) -> Plain<'_> {
    let plain = |c: &char| !matches!(c, '\0'..='\x1F' | '"' | '\\' | '\x7F');
    // Whole characters may be followed by a part of one.
    let text = match std::str::from_utf8(token) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&token[..error.valid_up_to()]).unwrap_or_default(),
    };
    let chars = text.chars().take_while(plain).take(counted);
    let (chars, bytes) = chars.fold((0, 0), |(chars, bytes), c| {
        (chars + 1, bytes + c.len_utf8())
    });
    Plain {
        chars,
        rest: &token[bytes..],
    }
}

/// Whether a long plain text may follow, whatever its characters.
fn has_room_for_long(lexer: &mut ParserRecognizer<'_>) -> bool {
    let state = lexer.lexer_state();
    let long = lexer
        .lexer_mut()
        .check_subsume(state, LONG, LONG_COST, None);
    long.unwrap_or(false)
}

/// Returns how many plain characters may follow, whichever they are, up to `most`; `None` if that depends on them.
fn room(lexer: &mut ParserRecognizer<'_>, most: usize, known: &mut Known) -> Option<usize> {
    let mut state = lexer.lexer_state();
    for room in 0..most {
        let leads = *known.entry(state).or_insert_with(|| one_char(lexer, state));
        match leads? {
            Leads::Nowhere => return Some(room),
            Leads::To(next) => state = next,
        }
    }
    Some(most)
}

/// The target of characters that all behave alike.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leads {
    Nowhere,
    To(StateID),
}

/// Targets of the remaining bytes of a character, by the state in its middle.
type Found = Vec<(StateID, &'static [Bytes], Leads)>;

/// Returns the target of the next plain character; `None` if it differs by character, or depends on more than the
/// lexer.
fn one_char(lexer: &mut ParserRecognizer<'_>, state: StateID) -> Option<Leads> {
    if !stays(lexer, state) {
        return None;
    }
    let mut found = Found::new();
    alike(
        PLAIN
            .into_iter()
            .map(|bytes| spelled(lexer, state, bytes, &mut found)),
    )
}

fn spelled(
    lexer: &mut ParserRecognizer<'_>,
    state: StateID,
    bytes: &'static [Bytes],
    found: &mut Found,
) -> Option<Leads> {
    let (first, rest) = bytes.split_first()?;
    alike(first.clone().map(|byte| {
        let next = lexer
            .lexer_mut()
            .transition_start_state(state, Some(byte), &None);
        if next.is_dead() {
            return Some(Leads::Nowhere);
        }
        from_here(lexer, next, rest, found)
    }))
}

fn from_here(
    lexer: &mut ParserRecognizer<'_>,
    state: StateID,
    rest: &'static [Bytes],
    found: &mut Found,
) -> Option<Leads> {
    let known = found
        .iter()
        .find(|(at, bytes, _)| *at == state && *bytes == rest);
    if let Some((_, _, leads)) = known {
        return Some(*leads);
    }
    if !stays(lexer, state) {
        return None;
    }
    let leads = if rest.is_empty() {
        Leads::To(state)
    } else {
        spelled(lexer, state, rest, found)?
    };
    found.push((state, rest, leads));
    Some(leads)
}

/// Returns the common value of all; stops at the first difference.
fn alike(mut all: impl Iterator<Item = Option<Leads>>) -> Option<Leads> {
    let first = all.next()??;
    all.all(|one| one == Some(first)).then_some(first)
}

/// Whether the next byte belongs to the present lexeme. If nothing ends here and nothing can, the state of the lexer
/// alone decides what may follow.
fn stays(lexer: &mut ParserRecognizer<'_>, state: StateID) -> bool {
    let lexer = lexer.lexer_mut();
    !state.has_lowest_match()
        && lexer.subsume_possible(state)
        && lexer.try_lexeme_end(state).is_error()
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use llguidance::Matcher;
    use llguidance::api::{GrammarInit, TopLevelGrammar};
    use toktrie::{InferenceCapabilities, TokEnv, TokenizerEnv};

    use super::*;

    const GRAMMARS: [&str; 12] = [
        r#"start: %json {"type": "string", "maxLength": 6}"#,
        r#"start: %json {"type": "string", "minLength": 3, "maxLength": 5}"#,
        r#"start: %json {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 3}"#,
        r#"start: %json {"type": "string", "maxLength": 40}"#,
        r#"start: %json {"type": "string", "minLength": 20}"#,
        r#"start: %json {"type": "array", "items": {"type": "string"}, "maxItems": 2}"#,
        r#"start: %json {"anyOf": [{"type": "string", "maxLength": 2}, {"type": "string", "pattern": "^[ab]{4,9}$"}]}"#,
        r#"start: %json {"type": "string", "pattern": "^[a-z ]{0,12}$"}"#,
        r#"start: %json {"enum": ["a robot", "ab"]}"#,
        // Characters that lead to the same state of the lexer, although different texts may follow.
        "start: A X X | B X X X X\nA: /[ !#-\\[\\]-m]/\nB: /[n-~\\u{80}-\\u{10FFFF}]/\nX: /[ !#-\\[\\]-~\\u{80}-\\u{10FFFF}]/",
        // Lexemes that may end before each character, and those that end as soon as possible.
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

    /// An end token, all bytes, texts of one to twenty characters of one to four bytes, and some that are not plain.
    pub(in crate::guide::inside) fn vocabulary() -> TokEnv {
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
        // The last byte of a character and the next character.
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

    /// Returns the mask of a walk through the whole vocabulary, after comparing both.
    struct Compared {
        counting: Arc<Counting>,
        masks: Arc<AtomicUsize>,
        counted: Arc<AtomicUsize>,
    }

    impl BiasComputer for Compared {
        fn compute_bias(&self, lexer: &mut ParserRecognizer<'_>, start: &[u8]) -> SimpleVob {
            let mut walked = self.trie().alloc_token_set();
            self.trie().add_bias(lexer, &mut walked, start);
            let mask = self.counting.compute_bias(lexer, start);
            assert_eq!(
                mask.iter().collect::<Vec<_>>(),
                walked.iter().collect::<Vec<_>>()
            );
            let counted = start.is_empty() && self.counting.by_counting(lexer).is_some();
            self.masks.fetch_add(1, Ordering::Relaxed);
            self.counted.fetch_add(counted.into(), Ordering::Relaxed);
            walked
        }

        fn trie(&self) -> &TokTrie {
            self.counting.trie()
        }
    }

    #[test]
    fn masks_are_those_of_walking_all_tokens() {
        let slices = SLICES.map(str::to_owned);
        let vocabulary = vocabulary();
        let mut factory =
            ParserFactory::new(&vocabulary, InferenceCapabilities::default(), &slices)
                .expect("the slices are right");
        factory.quiet();
        let room = Arc::new(Room::new(&factory));
        let (masks, counted) = (Arc::default(), Arc::default());
        let mut random = fastrand::Rng::with_seed(7);
        for grammar in GRAMMARS {
            let lark = TopLevelGrammar::from_lark(grammar.into());
            let parser = factory.create_parser_from_init(GrammarInit::Serialized(lark), 0, 0);
            let mut parser = parser.expect("it is a grammar");
            let mut counting = Arc::new(Counting::new(room.clone()));
            for answer in 0..40 {
                // The next answer begins with the states of the previous one, in a copy of the lexer or in the same.
                if answer % 2 == 0 {
                    parser = parser.deep_clone();
                    counting = Arc::new(counting.copy());
                }
                parser.bias_computer = Arc::new(Compared {
                    counting: counting.clone(),
                    masks: Arc::clone(&masks),
                    counted: Arc::clone(&counted),
                });
                let mut matcher = Matcher::new(Ok(parser.clone()));
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
            [masks, counted].map(|count: Arc<AtomicUsize>| count.load(Ordering::Relaxed));
        assert!(
            counted > 3000 && masks > counted + 1000,
            "{counted} of {masks}"
        );
    }
}

//! Grammars as callers state them: the required format of an answer.

use llguidance::api::TopLevelGrammar;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::schema::{self, Prepared, Unchecked, inexact, spaced};
use super::syntax::{ArgumentTypes, Rules, Syntax, Written};

/// The deepest nesting of groups.
const DEEPEST: usize = 128;
/// The most members of one object of a schema: their time grows with the square of their number.
const WIDEST: usize = 2048;

/// The required format of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Grammar {
    /// A JSON Schema: the answer is JSON that it accepts.
    JsonSchema(String),
    /// A JSON Schema. Keywords that cannot be enforced are ignored.
    LenientSchema(String),
    /// Any JSON object.
    Json,
    /// A regular expression for the whole answer.
    Regex(String),
    /// Lark's syntax, with llguidance's extensions; `start` is the answer.
    Lark(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// Text and tool calls.
    Tools {
        /// The grammar without the rules of arguments, in Lark's syntax.
        lark: String,
        /// The JSON Schemas of arguments, and the positions of their tools. The rule of each is `arguments` and the position.
        arguments: Vec<(usize, String)>,
        /// Whether keywords that cannot be enforced are ignored.
        lenient: bool,
        /// Bytes of the caller's offer.
        bytes: usize,
        /// The trigger of calls, if it is text and not a token.
        trigger: Option<Box<str>>,
        /// The syntax of the arguments, if they are not a JSON object.
        syntax: Option<Box<Syntax>>,
    },
}

/// The reason why a grammar is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    #[error("option {option:?}: {why}")]
    Wrong { option: &'static str, why: String },
    #[error("option {option:?} has {bytes} bytes; {limit} are allowed (limits.grammar_bytes)")]
    TooLong {
        option: &'static str,
        bytes: usize,
        limit: usize,
    },
    #[error("option {option:?} nests {depth} deep; {DEEPEST} are allowed")]
    TooDeep { option: &'static str, depth: usize },
    #[error("option {option:?} has an object of {members} members; {WIDEST} are allowed")]
    TooWide {
        option: &'static str,
        members: usize,
    },
    #[error(
        "this model's vocabulary has no token that ends an answer, so that nothing can bound one"
    )]
    NoVocabulary,
    #[error(
        "option {option:?} needs {mib} MiB of memory once it is compiled; {most} are allowed; make it simpler",
        most = super::limits::COMPILED >> 20
    )]
    TooLarge { option: &'static str, mib: usize },
    /// A limit of its process has passed.
    #[error("option {option:?} costs too much: compiling it {why}; make it simpler")]
    Stopped { option: &'static str, why: String },
    #[error("the process that compiles grammars cannot be started ({why}); try again later")]
    NoProcess { why: String },
    /// Its request was cancelled meanwhile.
    #[error("the request was cancelled while its grammar was compiled")]
    Unwanted,
}

impl Grammar {
    /// Returns the option that callers give it by.
    #[must_use]
    pub const fn option(&self) -> &'static str {
        match self {
            Self::JsonSchema(_) | Self::LenientSchema(_) => "json_schema",
            Self::Json => "json",
            Self::Regex(_) => "regex",
            Self::Lark(_) => "grammar",
            Self::Choice(_) => "choice",
            Self::Tools { .. } => "tools",
        }
    }

    /// Whether an answer may be any text, including none.
    pub(super) fn allows_silence(&self) -> bool {
        matches!(self, Self::Tools { lark, .. } if lark.starts_with("start: TEXT"))
    }

    /// Returns the bytes of the caller's text.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Json => 0,
            Self::JsonSchema(text)
            | Self::LenientSchema(text)
            | Self::Regex(text)
            | Self::Lark(text) => text.len(),
            Self::Choice(texts) => texts.iter().map(String::len).sum(),
            Self::Tools { bytes, .. } => *bytes,
        }
    }

    pub(super) fn wrong(&self, why: &impl ToString) -> GrammarError {
        let why = why.to_string();
        // llguidance marks the end of a message that it was asked to shorten.
        let why = why.split("<non-verbose").next().unwrap_or_default();
        GrammarError::Wrong {
            option: self.option(),
            why: why.trim_end().to_owned(),
        }
    }

    /// Whether keywords that cannot be enforced are ignored.
    #[must_use]
    pub const fn is_lenient(&self) -> bool {
        match self {
            Self::LenientSchema(_) => true,
            Self::Tools { lenient, .. } => *lenient,
            _ => false,
        }
    }

    /// Reads its schemas.
    ///
    /// # Errors
    /// A text nests too deep or is not JSON; an object is too large; a keyword cannot be enforced, and the grammar is not lenient.
    pub(super) fn source(&self) -> Result<Source<'_>, GrammarError> {
        if let Self::Regex(text) | Self::Lark(text) = self {
            let depth = depth(text);
            if depth > DEEPEST {
                let option = self.option();
                return Err(GrammarError::TooDeep { option, depth });
            }
        }
        let parts = match self {
            Self::JsonSchema(text) | Self::LenientSchema(text) => {
                let not_json =
                    |error: serde_json::Error| self.wrong(&format!("it is not JSON: {error}"));
                let given = serde_json::from_str(text).map_err(not_json)?;
                let (schema, place) = schema::unwrapped(given).map_err(|why| self.wrong(&why))?;
                vec![self.part(None, place.to_owned(), schema)?]
            }
            Self::Tools { arguments, .. } => {
                let parts = arguments.iter().map(|(at, text)| {
                    // The text was valid JSON when it was made.
                    let schema = serde_json::from_str(text).unwrap_or_default();
                    self.part(Some(*at), format!("/{at}/function/parameters"), schema)
                });
                parts.collect::<Result<_, _>>()?
            }
            Self::Json | Self::Regex(_) | Self::Lark(_) | Self::Choice(_) => Vec::new(),
        };
        if let Self::Lark(text) = self {
            self.admit_within(text)?;
        }
        Ok(Source {
            grammar: self,
            parts,
        })
    }

    fn part(&self, at: Option<usize>, place: String, schema: Value) -> Result<Part, GrammarError> {
        self.admit(&schema)?;
        let types = self.syntax().map(|_| ArgumentTypes::of(&schema));
        let Prepared { schema, unchecked } = schema::prepare(schema);
        let mut part = Part {
            at,
            place,
            schema,
            types,
            unchecked,
        };
        if part.types.is_some() {
            let lost = self.rules(&part).unchecked;
            part.unchecked.extend(lost);
        }
        if let Some(first) = part.unchecked.first().filter(|_| !self.is_lenient()) {
            let pointer = shortened(&format!("{}{}", part.place, first.pointer));
            return Err(self.wrong(&format!("{} at {pointer:?}; {REMEDY}", first.why)));
        }
        Ok(part)
    }

    /// Writes the rules of the arguments of a tool.
    fn rules(&self, part: &Part) -> Written {
        let at = part.at.unwrap_or_default();
        if let (Some(syntax), Some(types)) = (self.syntax(), &part.types) {
            return Rules::new(syntax, types, &part.schema, at).write();
        }
        let schema = spaced(part.schema.clone());
        Written {
            lark: format!("arguments{at}: %json {schema}\n"),
            unchecked: Vec::new(),
        }
    }

    /// Returns the syntax of the arguments of calls that are not JSON objects.
    fn syntax(&self) -> Option<&Syntax> {
        match self {
            Self::Tools { syntax, .. } => syntax.as_deref(),
            _ => None,
        }
    }

    /// Refuses a schema with an object that is too large.
    fn admit(&self, schema: &Value) -> Result<(), GrammarError> {
        let (option, members) = (self.option(), widest(schema));
        if members > WIDEST {
            return Err(GrammarError::TooWide { option, members });
        }
        Ok(())
    }

    /// Refuses large objects within a grammar, and numbers that llguidance would read as others.
    fn admit_within(&self, text: &str) -> Result<(), GrammarError> {
        // Each schema may contain the same word as text.
        for (at, word) in text.match_indices("%json") {
            let rest = text.get(at + word.len()..).unwrap_or_default();
            let schema = serde_json::Deserializer::from_str(rest).into_iter().next();
            let Some(Ok(schema)) = schema else {
                continue;
            };
            self.admit(&schema)?;
            if let Some(number) = inexact(&schema) {
                return Err(self.wrong(&format!(
                    "{number} cannot be distinguished from the whole numbers next to it, because numbers are doubles"
                )));
            }
        }
        Ok(())
    }
}

/// The remedy for a keyword that cannot be enforced.
pub(super) const REMEDY: &str =
    "change it, or give the option schema_lenient, which leaves it unchecked";

/// A grammar, and its schemas.
pub(super) struct Source<'a> {
    grammar: &'a Grammar,
    pub(super) parts: Vec<Part>,
}

/// A schema of a grammar.
pub(super) struct Part {
    /// The position of its tool.
    at: Option<usize>,
    /// A JSON pointer to the schema within what the caller gave.
    pub(super) place: String,
    pub(super) schema: Value,
    /// The types of the arguments of a call that are not a JSON object.
    types: Option<ArgumentTypes>,
    /// Keywords that are not enforced; their pointers are within the schema.
    pub(super) unchecked: Vec<Unchecked>,
}

impl Source<'_> {
    /// The grammar as llguidance takes it.
    pub(super) fn top_level(&self) -> TopLevelGrammar {
        match self.grammar {
            Grammar::JsonSchema(_) | Grammar::LenientSchema(_) => {
                let schema = self.parts.first().map(|part| part.schema.clone());
                of_schema(schema.unwrap_or_default())
            }
            Grammar::Json => of_schema(json!({"type": "object"})),
            Grammar::Regex(text) => TopLevelGrammar::from_regex(text),
            Grammar::Lark(text) => TopLevelGrammar::from_lark(text.clone()),
            Grammar::Tools { lark, .. } => {
                let mut lark = lark.clone();
                for part in &self.parts {
                    lark += &self.grammar.rules(part).lark;
                }
                TopLevelGrammar::from_lark(lark)
            }
            Grammar::Choice(texts) => {
                // JSON's escapes are those of Lark.
                let quoted: Vec<_> = texts.iter().map(|text| json!(text).to_string()).collect();
                TopLevelGrammar::from_lark(format!("start: {}", quoted.join(" | ")))
            }
        }
    }

    /// Returns JSON pointers to the keywords that are not enforced, within the caller's text.
    pub(super) fn unchecked(&self) -> Vec<String> {
        let each = self.parts.iter().flat_map(|part| {
            let pointers = part.unchecked.iter().map(|one| &one.pointer);
            pointers.map(|pointer| ancestor(&format!("{}{pointer}", part.place)))
        });
        let mut all: Vec<_> = each.collect();
        all.dedup();
        if all.len() > LISTED {
            // One pointer to the whole stands for the others.
            all.truncate(LISTED - 1);
            all.push(String::new());
        }
        all
    }
}

/// A prepared schema as llguidance takes it.
pub(super) fn of_schema(schema: Value) -> TopLevelGrammar {
    TopLevelGrammar::from_json_schema(spaced(schema))
}

/// The most keywords that are listed, and the most bytes of a pointer.
const LISTED: usize = 256;
const POINTER: usize = 1024;

/// Returns a pointer of bounded length; a long one is shortened to a surrounding schema.
fn ancestor(pointer: &str) -> String {
    let mut pointer = pointer;
    while pointer.len() > POINTER {
        pointer = pointer.rsplit_once('/').map_or("", |(outer, _)| outer);
    }
    pointer.to_owned()
}

/// Shortens a pointer, because the names in a schema may be as long as the schema.
pub(super) fn shortened(pointer: &str) -> String {
    const SIDE: usize = 300;
    let chars = pointer.chars().count();
    if chars <= 2 * SIDE {
        return pointer.to_owned();
    }
    let (first, last) = (
        pointer.chars().take(SIDE),
        pointer.chars().skip(chars - SIDE),
    );
    first.chain("...".chars()).chain(last).collect()
}

/// Returns an upper bound of the nesting of groups, which also counts groups within text. Parsing would take hundreds
/// of megabytes for a text of nothing else.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut escaped) = (0_usize, 0, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// Returns the number of members of the largest object. Parsed JSON nests at most 128 deep.
fn widest(json: &Value) -> usize {
    match json {
        Value::Object(members) => {
            let within = members.values().map(widest).max();
            members.len().max(within.unwrap_or_default())
        }
        Value::Array(items) => items.iter().map(widest).max().unwrap_or_default(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unenforceable_keywords_are_refused_with_their_place_or_listed() {
        let text = json!({"schema": {"items": {"uniqueItems": true}}, "name": "n"}).to_string();
        let strict = Grammar::JsonSchema(text.clone());
        let why = strict.source().err().map(|error| error.to_string());
        let why = why.unwrap_or_default();
        assert!(
            why.contains(
                "at \"/schema/items/uniqueItems\"; change it, or give the option schema_lenient"
            ),
            "{why}"
        );
        let lenient = Grammar::LenientSchema(text);
        let source = lenient.source().expect("it is taken");
        assert_eq!(source.unchecked(), ["/schema/items/uniqueItems"]);
    }

    #[test]
    fn an_inexact_number_is_refused_within_a_grammar() {
        let lark = |schema: Value| Grammar::Lark(format!("start: %json {schema}"));
        assert!(
            lark(json!({"const": 9_007_199_254_740_993_u64}))
                .source()
                .is_err()
        );
        assert!(
            lark(json!({"const": 9_007_199_254_740_992_u64}))
                .source()
                .is_ok()
        );
    }

    #[test]
    fn long_pointers_and_long_lists_are_cut() {
        assert_eq!(ancestor(&format!("/a/{}/b", "x".repeat(2000))), "/a");
        let many = Value::from(vec![json!({"uniqueItems": true}); 1000]);
        let grammar = Grammar::LenientSchema(json!({"anyOf": many}).to_string());
        let unchecked = grammar.source().expect("it is taken").unchecked();
        assert_eq!(
            (unchecked.len(), unchecked.last().map(String::as_str)),
            (LISTED, Some(""))
        );
    }
}

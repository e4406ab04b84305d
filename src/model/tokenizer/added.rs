//! Classifies added tokens: control tokens, parts of a template's structure, or text.

use std::collections::{HashMap, HashSet};

use super::definition::Added;
use super::ends;
use super::special::Class;
use super::spelling::Spelling;

/// Elements of HTML whose tags vocabularies contain.
const ELEMENTS: [&str; 43] = [
    "a",
    "b",
    "blockquote",
    "body",
    "br",
    "caption",
    "code",
    "col",
    "dd",
    "div",
    "dl",
    "dt",
    "em",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "hr",
    "html",
    "i",
    "iframe",
    "img",
    "li",
    "ol",
    "p",
    "pre",
    "s",
    "span",
    "strong",
    "sub",
    "sup",
    "table",
    "tbody",
    "td",
    "tfoot",
    "th",
    "thead",
    "tr",
    "u",
    "ul",
];

/// Returns the class of each added token by id, and the ids of tokens that merges make.
///
/// A token that merges make is text, whatever the file says, except if its spelling is that of a control token. The
/// merges of such a token are dropped, because no caller's text may become it.
pub(super) fn classify(
    added: &[Added],
    merges: &mut Vec<(String, String)>,
    spelling: &Spelling,
) -> (HashMap<u32, Class>, HashSet<u32>) {
    let joined = joined(added, merges, spelling);
    let mut classes = HashMap::new();
    let mut made = HashSet::new();
    let mut unreachable = HashSet::new();
    for token in added {
        let content = token.content.as_str();
        let is_made = joined.contains(content);
        let steers = looks_like_control(token);
        let class = if is_blank_or_visible_character(content) || (is_made && !steers) {
            Class::Text
        } else if token.special || steers {
            Class::Control
        } else if is_tag(content) && !is_html(content) {
            Class::Structure
        } else {
            Class::Text
        };
        if is_made && class == Class::Text {
            made.insert(token.id);
        }
        if is_made && class != Class::Text {
            unreachable.insert(content);
        }
        classes.insert(token.id, class);
    }
    if !unreachable.is_empty() {
        merges.retain(|(left, right)| {
            let product = [left.as_str(), right.as_str()].concat();
            let mut parts = [left, right, &product].into_iter();
            !parts.any(|part| unreachable.contains(part.as_str()))
        });
    }
    (classes, made)
}

/// Returns the contents that are atoms of the vocabulary, or that merges make or join.
fn joined<'a>(
    added: &'a [Added],
    merges: &[(String, String)],
    spelling: &Spelling,
) -> HashSet<&'a str> {
    let contents: HashSet<&str> = added.iter().map(|token| token.content.as_str()).collect();
    let mut joined: HashSet<&str> = contents
        .iter()
        .copied()
        .filter(|content| spelling.is_atom(content))
        .collect();
    let longest = contents.iter().map(|content| content.len()).max();
    for (left, right) in merges {
        if left.len().min(right.len()) > longest.unwrap_or(0) {
            continue;
        }
        let product = [left.as_str(), right.as_str()].concat();
        for part in [left, right, &product] {
            joined.extend(contents.get(part.as_str()));
        }
    }
    joined
}

/// Whether a spelling is that of a control token by convention. Some models declare a token that begins a role's turn
/// as ordinary text.
fn looks_like_control(token: &Added) -> bool {
    let framed = |open, close| {
        let inner = token.content.strip_prefix(open);
        let inner = inner.and_then(|rest| rest.strip_suffix(close));
        // Gemma 4's quotation mark has no name.
        inner.is_some_and(|inner| inner.contains(char::is_alphanumeric))
    };
    framed("<|", "|>")
        || framed("<｜", "｜>")
        || (token.special && is_tag(&token.content))
        || (ends::usual().any(|end| end == token.content) && !is_html(&token.content))
}

fn is_tag(content: &str) -> bool {
    let framed = |open, close| content.starts_with(open) && content.ends_with(close);
    content.len() > 2 && (framed('<', '>') || framed('[', ']'))
}

/// Whether a content is a tag of HTML, as in programs and web pages.
fn is_html(content: &str) -> bool {
    let name = content
        .strip_prefix('<')
        .and_then(|rest| rest.strip_suffix('>'));
    let name = name.map(|name| name.strip_prefix('/').unwrap_or(name));
    name.is_some_and(|name| ELEMENTS.contains(&name))
}

/// Whether a content is white space or a single visible character, which cannot be distinguished from text.
fn is_blank_or_visible_character(content: &str) -> bool {
    let mut chars = content.chars();
    let first = chars.next();
    let is_private = |c: char| matches!(c, '\u{E000}'..='\u{F8FF}' | '\u{F0000}'..='\u{10FFFF}');
    let is_visible = |c: char| !c.is_control() && !is_private(c);
    content.chars().all(char::is_whitespace)
        || (chars.next().is_none() && first.is_some_and(is_visible))
}

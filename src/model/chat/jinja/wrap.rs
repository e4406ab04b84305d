//! Python's `textwrap`, as the filter `wordwrap` uses it.

/// The lines of a paragraph.
pub(super) fn lines(text: &str, width: usize, break_long: bool, hyphens: bool) -> Vec<String> {
    let mut chunks: Vec<Vec<char>> = chunks(text, hyphens);
    chunks.reverse();
    let mut lines = Vec::new();
    while !chunks.is_empty() {
        if !lines.is_empty() && chunks.last().is_some_and(|chunk| is_blank(chunk)) {
            chunks.pop();
        }
        let mut line: Vec<Vec<char>> = Vec::new();
        let mut length = 0;
        while let Some(chunk) = chunks.pop_if(|chunk| length + chunk.len() <= width) {
            length += chunk.len();
            line.push(chunk);
        }
        if let Some(chunk) = chunks.pop_if(|chunk| chunk.len() > width) {
            if break_long {
                let mut end = width - length;
                let before = chunk.get(..end).unwrap_or_default();
                let hyphen = before.iter().rposition(|c| *c == '-').unwrap_or_default();
                if hyphens && before.iter().take(hyphen).any(|c| *c != '-') {
                    end = hyphen + 1;
                }
                let (now, later) = chunk.split_at(end);
                line.push(now.to_vec());
                chunks.push(later.to_vec());
            } else if line.is_empty() {
                line.push(chunk);
            } else {
                chunks.push(chunk);
            }
        }
        line.pop_if(|chunk| is_blank(chunk));
        if !line.is_empty() {
            lines.push(line.concat().into_iter().collect());
        }
    }
    lines
}

const SPACES: [char; 6] = ['\t', '\n', '\x0b', '\x0c', '\r', ' '];

fn is_blank(chunk: &[char]) -> bool {
    chunk.iter().all(|c| c.is_whitespace())
}

/// Splits a text into words and the spaces between them; with `hyphens`, words also end behind a hyphen.
fn chunks(text: &str, hyphens: bool) -> Vec<Vec<char>> {
    let chars: Vec<char> = text.chars().collect();
    let space = |at: usize| chars.get(at).is_some_and(|c| SPACES.contains(c));
    let mut chunks = Vec::new();
    let mut chunk: Vec<char> = Vec::new();
    for (at, c) in chars.iter().enumerate() {
        let starts =
            at > 0 && (space(at) != space(at - 1) || (hyphens && !space(at) && breaks(&chars, at)));
        if starts {
            chunks.push(std::mem::take(&mut chunk));
        }
        chunk.push(*c);
    }
    chunks.push(chunk);
    chunks.retain(|chunk| !chunk.is_empty());
    chunks
}

/// Whether a word may be broken before a place in it: behind a hyphen between letters, and around a dash.
fn breaks(chars: &[char], at: usize) -> bool {
    let letter = |at: Option<usize>| {
        at.and_then(|at| chars.get(at))
            .is_some_and(|c| c.is_alphabetic() || *c == '_')
    };
    let word = |c: &char| c.is_alphanumeric() || *c == '_';
    let hyphen = |at: usize| chars.get(at) == Some(&'-');
    let back = |count: usize| at.checked_sub(count);
    if hyphen(at - 1) && !hyphen(at) {
        let dashes = chars
            .iter()
            .take(at)
            .rev()
            .take_while(|c| **c == '-')
            .count();
        if dashes > 1 {
            let before = back(dashes + 1).and_then(|at| chars.get(at));
            let between = before.is_some_and(|c| word(c) || "!\"'&.,?".contains(*c));
            return between && chars.get(at).is_some_and(word);
        }
        let before = letter(back(2))
            && (letter(back(3)) || (back(3).is_some_and(hyphen) && letter(back(4))));
        let after =
            letter(Some(at)) && (letter(Some(at + 1)) || (hyphen(at + 1) && letter(Some(at + 2))));
        return before && after;
    }
    if hyphen(at) && !hyphen(at - 1) && hyphen(at + 1) {
        let before = chars.get(at - 1);
        let after = chars.iter().skip(at).find(|c| **c != '-');
        return before.is_some_and(|c| word(c) || "!\"'&.,?".contains(*c))
            && after.is_some_and(word);
    }
    false
}

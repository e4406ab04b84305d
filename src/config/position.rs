//! The line and column of a byte of a text.

/// A line and a column, both counted from 1, and the text of that line without surrounding white space.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Position<'a> {
    pub(super) line: usize,
    /// The column, in characters.
    pub(super) column: usize,
    pub(super) text: &'a str,
}

impl<'a> Position<'a> {
    /// Returns the position of byte `at`. The position after the last byte is the end of the last line.
    pub(super) fn of(text: &'a str, at: usize) -> Self {
        let at = (0..=at.min(text.len()))
            .rev()
            .find(|&byte| text.is_char_boundary(byte))
            .unwrap_or(0);
        let (before, after) = text.split_at(at);
        let begun = before.rsplit('\n').next().unwrap_or_default();
        let rest = after.lines().next().unwrap_or_default();
        let start = before.len() - begun.len();
        let end = before.len()
            + if after.starts_with('\n') {
                0
            } else {
                rest.len()
            };
        Self {
            line: before.matches('\n').count() + 1,
            column: begun.chars().count() + 1,
            text: text.get(start..end).unwrap_or_default().trim(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Position;

    #[test]
    fn positions_count_lines_and_characters() {
        let text = "a = 1\n  é = 2\nb = 3";
        let position = |at| {
            let Position { line, column, text } = Position::of(text, at);
            (line, column, text)
        };
        assert_eq!(position(0), (1, 1, "a = 1"));
        assert_eq!(position(5), (1, 6, "a = 1"));
        assert_eq!(position(11), (2, 5, "é = 2"));
        assert_eq!(position(9), (2, 3, "é = 2"), "within a character");
        assert_eq!(position(999), (3, 6, "b = 3"));
    }
}

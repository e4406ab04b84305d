//! Where a byte of a text is, for people.

/// A line and a column, both from 1, and that line without its white space.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place<'a> {
    pub(super) line: usize,
    /// In characters.
    pub(super) column: usize,
    pub(super) text: &'a str,
}

impl<'a> Place<'a> {
    /// The place of byte `at`; one past the end is the end of the last line.
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
    use super::Place;

    #[test]
    fn places_count_lines_and_characters() {
        let text = "a = 1\n  é = 2\nb = 3";
        let place = |at| {
            let Place { line, column, text } = Place::of(text, at);
            (line, column, text)
        };
        assert_eq!(place(0), (1, 1, "a = 1"));
        assert_eq!(place(5), (1, 6, "a = 1"));
        assert_eq!(place(11), (2, 5, "é = 2"));
        assert_eq!(place(9), (2, 3, "é = 2"), "within a character");
        assert_eq!(place(999), (3, 6, "b = 3"));
    }
}

//! Removes a fixed text from the beginning of a longer one.

/// A fixed text that may begin a longer one, while that one is read.
#[derive(Clone, Debug, Default)]
pub(super) struct Heading {
    fixed: String,
    /// The beginning of the longer text, as long as it may be the fixed one.
    begun: Option<String>,
}

impl Heading {
    pub(super) fn new(fixed: String) -> Self {
        Self { fixed, begun: None }
    }

    /// Begins a longer text.
    pub(super) fn begin(&mut self) {
        self.begun = (!self.fixed.is_empty()).then(String::new);
    }

    /// Returns the next part of the longer text, without the fixed text and without a part that may belong to it.
    pub(super) fn rest_of(&mut self, text: String) -> String {
        let Some(begun) = self.begun.take() else {
            return text;
        };
        let mut begun = begun + &text;
        if self.fixed.starts_with(&begun) {
            self.begun = Some(begun);
            return String::new();
        }
        if begun.starts_with(&self.fixed) {
            return begun.split_off(self.fixed.len());
        }
        begun
    }

    /// Returns the end of the longer text. White space at the end of the fixed text may be missing.
    pub(super) fn end(&mut self, text: String) -> String {
        let rest = self.rest_of(text);
        let begun = self.begun.take().unwrap_or_default();
        if begun.trim_end() == self.fixed.trim_end() {
            return rest;
        }
        begun + &rest
    }
}

#[cfg(test)]
mod tests {
    use super::Heading;

    #[test]
    fn only_the_fixed_text_at_the_beginning_is_removed() {
        for (parts, expected) in [
            (&["thought\n", "hm"][..], "hm"),
            (&["tho", "ught\nthought\n"], "thought\n"),
            (&["thought"], ""),
            (&["thought\n"], ""),
            (&["thou"], "thou"),
            (&["though", " so"], "though so"),
            (&["", "hm"], "hm"),
        ] {
            let mut heading = Heading::new("thought\n".into());
            heading.begin();
            let said: String = parts
                .iter()
                .map(|part| heading.rest_of((*part).into()))
                .collect();
            assert_eq!(said + &heading.end(String::new()), expected, "{parts:?}");
        }
    }
}

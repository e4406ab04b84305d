//! A manual page as it is written: sections, paragraphs, tagged lists and examples, in man(7).

use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

/// A page in the making.
pub(super) struct Page {
    /// What comes before `roff`.
    written: String,
    roff: Roff,
}

impl Page {
    /// `name` with its section, and one line of what it is.
    pub(super) fn new(name: &str, section: u8, what: &str) -> Self {
        let mut roff = Roff::new();
        let version = concat!("ganglion ", env!("CARGO_PKG_VERSION"));
        // No date: the same sources make the same page.
        roff.control("TH", [name, &section.to_string(), "", version, "Ganglion"]);
        let mut page = Self {
            written: String::new(),
            roff,
        };
        page.section("NAME");
        page.roff.text([roman(format!("{name} - {what}"))]);
        page
    }

    pub(super) fn section(&mut self, title: &str) -> &mut Self {
        self.roff.control("SH", [title]);
        self
    }

    pub(super) fn subsection(&mut self, title: &str) -> &mut Self {
        self.roff.control("SS", [title]);
        self
    }

    pub(super) fn paragraph(&mut self, text: &str) -> &mut Self {
        self.roff.control("PP", []);
        self.text(text)
    }

    /// A tag, and what it stands for.
    pub(super) fn entry(&mut self, tag: impl Into<Vec<Inline>>, text: &str) -> &mut Self {
        self.roff.control("TP", []);
        self.roff.text(tag);
        self.text(text)
    }

    /// Lines that are shown as they are.
    pub(super) fn example(&mut self, lines: &str) -> &mut Self {
        self.roff.control("PP", []);
        self.roff.control("RS", ["4"]);
        self.roff.control("EX", []);
        for line in lines.lines() {
            self.roff.text([roman(line)]);
        }
        self.roff.control("EE", []);
        self.roff.control("RE", []);
        self
    }

    /// What else there is to read.
    pub(super) fn see_also(mut self, pages: &[&str]) -> String {
        self.section("SEE ALSO");
        self.roff.text([roman(pages.join(", "))]);
        self.written + &self.roff.render()
    }

    /// What another generator made.
    pub(super) fn append(&mut self, made: &str) -> &mut Self {
        let before = std::mem::take(&mut self.roff);
        self.written.push_str(&before.render());
        self.written.push_str(made);
        self
    }

    /// A usage line, with the words that are typed as they are in bold.
    pub(super) fn usage(&mut self, typed: &str, rest: &str) -> &mut Self {
        self.roff.text([bold(typed), roman(" "), italic(rest)]);
        self
    }

    /// Filled; what `backquotes` hold is bold.
    fn text(&mut self, text: &str) -> &mut Self {
        let words: Vec<_> = text.split_whitespace().collect();
        let parts = words.join(" ");
        let inlines: Vec<_> = parts
            .split('`')
            .enumerate()
            .map(|(at, part)| if at % 2 == 1 { bold(part) } else { roman(part) })
            .collect();
        self.roff.text(inlines);
        self
    }
}

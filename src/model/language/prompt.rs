//! A rendered conversation and its tokens.

use std::ops::Range;
use std::sync::Arc;

use crate::model::tokenizer::Place;

/// The input of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    pub tokens: Vec<u32>,
    pub(super) segments: Segments,
}

/// A conversation as the chat template wrote it, not yet encoded.
#[derive(Clone, Debug)]
pub struct Rendered(pub(super) Segments);

impl Rendered {
    #[must_use]
    pub fn bytes(&self) -> usize {
        let bytes = self.0.iter().map(|segment| match segment {
            Segment::Special { spelling, .. } => spelling.len(),
            Segment::Text(text) => text.len(),
            Segment::Rows(_) => 0,
        });
        bytes.sum()
    }
}

/// A rendered conversation: special tokens, rows of images, and the text between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Segments {
    all: Vec<Segment>,
    /// Whether the first token is the tokenizer's, so that the text after it is the beginning.
    begun: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    Special {
        id: u32,
        spelling: Arc<str>,
    },
    /// Text that is not empty and not adjacent to other text.
    Text(String),
    /// Numbers that stand for rows of images. No other rows that continue them are adjacent.
    Rows(Range<u32>),
}

impl Prompt {
    /// Builds a prompt of the scripted engine: one token a word.
    pub fn from_words<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        Self {
            tokens: words
                .map(|word| u32::try_from(word.len()).unwrap_or(u32::MAX))
                .collect(),
            segments: Segments::default(),
        }
    }

    /// Builds a prompt of tokens without a known text.
    #[must_use]
    pub fn of_tokens(tokens: Vec<u32>) -> Self {
        Self {
            tokens,
            segments: Segments::default(),
        }
    }

    /// Returns the conversation as the chat template wrote it, without the rows of images.
    #[must_use]
    pub fn text(&self) -> String {
        self.segments.text()
    }
}

impl Segments {
    pub(super) fn text(&self) -> String {
        let pieces = self.iter().map(|segment| match segment {
            Segment::Special { spelling, .. } => &**spelling,
            Segment::Text(text) => text,
            Segment::Rows(_) => "",
        });
        pieces.collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Segment> {
        self.all.iter()
    }

    /// Returns each segment and its place, of which that of the first is `first`.
    pub(super) fn placed(&self, first: Place) -> impl Iterator<Item = (Place, &Segment)> {
        let after = (1..=self.all.len()).map(|at| self.place_after(at));
        std::iter::once(first).chain(after).zip(&self.all)
    }

    /// Returns the place of a segment that would follow.
    pub(super) fn end(&self) -> Place {
        self.place_after(self.all.len())
    }

    fn place_after(&self, count: usize) -> Place {
        match self.all[..count].last() {
            None => Place::Start,
            Some(Segment::Special { .. }) if self.begun && count == 1 => Place::Start,
            // A row of an image is a special token to a tokenizer.
            Some(Segment::Special { .. } | Segment::Rows(_)) => Place::AfterSpecial,
            Some(Segment::Text(_)) => Place::Within,
        }
    }

    /// Returns an empty beginning of the same conversation.
    pub(super) fn beginning(&self) -> Self {
        Self {
            all: Vec::new(),
            begun: self.begun,
        }
    }

    pub(super) fn push_special(&mut self, id: u32, spelling: &Arc<str>) {
        self.all.push(Segment::Special {
            id,
            spelling: spelling.clone(),
        });
    }

    pub(super) fn push_text(&mut self, text: &str) {
        match self.all.last_mut() {
            _ if text.is_empty() => {}
            Some(Segment::Text(last)) => last.push_str(text),
            _ => self.all.push(Segment::Text(text.to_owned())),
        }
    }

    /// Adds rows of an image, whose numbers are consecutive.
    pub(super) fn push_rows(&mut self, rows: Range<u32>) {
        match self.all.last_mut() {
            _ if rows.is_empty() => {}
            Some(Segment::Rows(last)) if last.end == rows.start => last.end = rows.end,
            _ => self.all.push(Segment::Rows(rows)),
        }
    }

    /// Returns it with rows in place of each `mark` in its texts, in order.
    pub(super) fn with_rows(&self, mark: char, rows: Vec<Range<u32>>) -> Self {
        let mut shown = self.beginning();
        let mut rows = rows.into_iter();
        for segment in self.iter() {
            match segment {
                Segment::Special { id, spelling } => shown.push_special(*id, spelling),
                Segment::Rows(rows) => shown.push_rows(rows.clone()),
                Segment::Text(text) => {
                    for (number, text) in text.split(mark).enumerate() {
                        if number > 0 {
                            shown.push_rows(rows.next().unwrap_or_default());
                        }
                        shown.push_text(text);
                    }
                }
            }
        }
        shown
    }

    /// Returns the numbers of all rows of images, in order.
    pub(super) fn rows(&self) -> impl Iterator<Item = u32> {
        let rows = self.iter().filter_map(|segment| match segment {
            Segment::Rows(rows) => Some(rows.clone()),
            _ => None,
        });
        rows.flatten()
    }

    /// Returns it with every text changed.
    pub(super) fn map_text(&self, change: impl Fn(&str) -> String) -> Self {
        let mut mapped = self.beginning();
        for segment in self.iter() {
            match segment {
                Segment::Special { id, spelling } => mapped.push_special(*id, spelling),
                Segment::Text(text) => mapped.push_text(&change(text)),
                Segment::Rows(rows) => mapped.push_rows(rows.clone()),
            }
        }
        mapped
    }

    /// Returns the id at the beginning.
    pub(super) fn first_id(&self) -> Option<u32> {
        match self.all.first() {
            Some(Segment::Special { id, .. }) => Some(*id),
            _ => None,
        }
    }

    /// Puts the tokenizer's token before the template's text.
    pub(super) fn insert_first(&mut self, id: u32, spelling: Arc<str>) {
        self.all.insert(0, Segment::Special { id, spelling });
        self.begun = true;
    }

    /// Returns the part after `prefix`; `None` if it begins otherwise.
    pub(super) fn after(&self, prefix: &Self) -> Option<Self> {
        let mut rest = self.all.iter();
        let mut expected = prefix.all.iter().peekable();
        while let Some(segment) = expected.next() {
            let here = rest.next()?;
            if here == segment {
                continue;
            }
            let (Segment::Text(here), Segment::Text(begin), None) =
                (here, segment, expected.peek())
            else {
                return None;
            };
            let mut after = Self::default();
            after.push_text(here.strip_prefix(begin.as_str())?);
            after.all.extend(rest.cloned());
            return Some(after);
        }
        Some(Self {
            all: rest.cloned().collect(),
            begun: false,
        })
    }
}

//! The content of messages as templates take it: a text, or a list of texts and images.
//! Not here: what replaces the placeholder of an image (`language`).

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use serde::Serialize;

use crate::model::message::Message;
use crate::vision::Received;

/// The text of conversations that show how a template reads content.
pub(super) const PROBE: &str = "Hello";

/// A message's content.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Content<'a> {
    Text(&'a str),
    Parts(Vec<Part<'a>>),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum Part<'a> {
    Text { text: &'a str },
    Image,
}

impl<'a> Content<'a> {
    /// Returns the content of a message. A message without images is a text, unless the template `takes_parts`.
    pub(super) fn of(message: &'a Message, takes_parts: bool) -> Self {
        if message.images.is_empty() {
            return Self::of_text(&message.content, takes_parts);
        }
        let mut parts = Vec::new();
        for (text, image) in message.split() {
            if !text.is_empty() {
                parts.push(Part::Text { text });
            }
            if image.is_some() {
                parts.push(Part::Image);
            }
        }
        Self::Parts(parts)
    }

    pub(super) fn of_text(text: &'a str, takes_parts: bool) -> Self {
        if takes_parts {
            Self::Parts(vec![Part::Text { text }])
        } else {
            Self::Text(text)
        }
    }
}

/// What stands for the images of a conversation in its prompt.
#[derive(Debug)]
pub struct ImageTexts {
    /// The text that a template writes for an image.
    pub placeholder: &'static str,
    /// The texts around it, for templates that write no images.
    pub around: [&'static str; 2],
    /// What replaces the placeholder of each image, by the address of the image as received.
    shown: HashMap<usize, Vec<ImagePiece>>,
}

/// A part of what replaces the placeholder of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImagePiece {
    /// Text with special tokens, by their names.
    Text(String),
    /// Numbers that stand for rows of embeddings.
    Rows(Range<u32>),
}

impl ImageTexts {
    #[must_use]
    pub fn new(placeholder: &'static str, around: [&'static str; 2]) -> Self {
        Self {
            placeholder,
            around,
            shown: HashMap::new(),
        }
    }

    /// Sets what replaces the placeholder of an image.
    pub fn show(&mut self, image: &Arc<Received>, pieces: Vec<ImagePiece>) {
        self.shown.insert(Arc::as_ptr(image) as usize, pieces);
    }

    /// Returns what replaces the placeholder of an image.
    pub(in crate::model) fn pieces(&self, image: &Arc<Received>) -> Option<&[ImagePiece]> {
        let pieces = self.shown.get(&(Arc::as_ptr(image) as usize));
        pieces.map(Vec::as_slice)
    }
}

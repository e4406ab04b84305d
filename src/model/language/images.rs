//! Puts images into a rendered conversation: each placeholder that the chat template wrote becomes the marks of its image's
//! family, and rows of embeddings.
//!
//! A user's text cannot make a placeholder, because the guard breaks its spelling. Rows are no text: a character that the
//! conversation does not have stands for them until the text is cut into tokens.
//! Not here: the marks and the numbers of an image, which callers give.

use std::ops::Range;

use crate::model::chat::{Guard, ImagePiece, ImageTexts, unused};
use crate::model::language_error::LanguageError;
use crate::model::message::{Message, MessageImage, Role};

/// What a model reads in place of an image whose bytes are lost.
const LOST: &str = "[image no longer available]";

/// How a template takes images.
#[derive(Clone, Copy, Debug)]
pub(super) enum Takes<'a> {
    /// The model takes none.
    Nothing,
    /// As parts of the content of a user's message.
    Parts(&'a ImageTexts),
    /// It writes no images, so their placeholders are in the text.
    Text(&'a ImageTexts),
}

/// Returns a message's content with guarded text, and the places of its images in it.
pub(super) fn guarded(
    message: &Message,
    takes: Takes<'_>,
    mark: impl Fn(&str) -> String,
) -> (String, Vec<MessageImage>) {
    let (mut content, mut images) = (String::new(), Vec::new());
    for (text, image) in message.split() {
        content += &mark(text);
        let Some(MessageImage { image, .. }) = image else {
            continue;
        };
        match (image, takes) {
            (None, _) | (_, Takes::Nothing) => content += LOST,
            (Some(_), Takes::Parts(_)) if message.role != Role::Tool => images.push(MessageImage {
                at: content.len(),
                image: None,
            }),
            // Many templates take only texts as results of tools.
            (Some(_), Takes::Parts(texts) | Takes::Text(texts)) => {
                let [before, after] = texts.around;
                content.extend([before, texts.placeholder, after]);
            }
        }
    }
    (content, images)
}

/// A rendered text in which a character stands for rows of images.
#[derive(Debug)]
pub(super) struct Expanded {
    pub(super) text: String,
    pub(super) mark: char,
    /// The rows of each such character, in order.
    pub(super) rows: Vec<Range<u32>>,
}

/// Replaces the placeholders of the images of some messages in their rendered text.
///
/// # Errors
/// If the template has written more or fewer placeholders than there are images.
pub(super) fn expanded(
    text: &str,
    messages: &[Message],
    texts: &ImageTexts,
    guard: &Guard<'_>,
) -> Result<Expanded, LanguageError> {
    let all = messages.iter().flat_map(|message| &message.images);
    let images = all.filter_map(|image| image.image.as_ref());
    let mut between = text.split(texts.placeholder);
    let mut expanded = between.next().unwrap_or_default().to_owned();
    let (places, count) = (between.clone().count(), images.clone().count());
    if places != count {
        return Err(LanguageError::Images {
            places,
            images: count,
        });
    }
    let sentinel = guard.mark_character().to_string();
    let mark = unused([text, &sentinel].into_iter())?;
    let mut rows = Vec::new();
    for (image, after) in images.zip(between) {
        let pieces = texts.pieces(image).ok_or(LanguageError::Images {
            places,
            images: count,
        })?;
        for piece in pieces {
            match piece {
                ImagePiece::Text(text) => expanded += text,
                ImagePiece::Rows(range) => {
                    expanded.push(mark);
                    rows.push(range.clone());
                }
            }
        }
        expanded += after;
    }
    Ok(Expanded {
        text: expanded,
        mark,
        rows,
    })
}

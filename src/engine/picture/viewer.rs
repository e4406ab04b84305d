//! What a request's prompt shows of the images of its messages.
//!
//! It finds pictures and their marks. The chat template decides where they stand.

use std::sync::Arc;

use parking_lot::Mutex;

use super::picture::Picture;
use super::pictures::Pictures;
use super::sight::Sight;
use crate::engine::caller::request::Refusal;
use crate::model::Message;
use crate::model::chat::{ImagePiece, ImageTexts};
use crate::vision::{self, Piece};

/// Finds the pictures of one user. Clones are for the same request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Viewer {
    pictures: Arc<Pictures>,
    user: u32,
    /// Pictures that were found, so that encoding the conversation again does not hash them again.
    found: Arc<Mutex<Vec<Arc<Picture>>>>,
}

/// The images of a conversation.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) texts: ImageTexts,
    /// Each picture once.
    pub(crate) pictures: Vec<Arc<Picture>>,
}

impl Viewer {
    pub(crate) fn new(pictures: Arc<Pictures>, user: u32) -> Self {
        Self {
            pictures,
            user,
            found: Arc::default(),
        }
    }

    /// Returns what stands for the images of messages in a prompt of a model.
    ///
    /// # Errors
    /// `Image` if the model cannot show one of them.
    pub(crate) fn show(&self, messages: &[Message], sight: &Arc<Sight>) -> Result<Shown, Refusal> {
        let rule = &sight.processor.settings().rule;
        let mut texts = ImageTexts::new(vision::placeholder(rule), vision::around(rule));
        let mut pictures = Vec::<Arc<Picture>>::new();
        for (message, said) in messages.iter().enumerate() {
            for (image, shown) in said.images.iter().enumerate() {
                let Some(received) = &shown.image else {
                    continue;
                };
                let found = self.pictures.find(self.user, received, sight);
                let picture = found.map_err(|error| Refusal::Image {
                    message,
                    image,
                    error,
                })?;
                texts.show(received, pieces(&picture, rule));
                if !pictures.iter().any(|one| Arc::ptr_eq(one, &picture)) {
                    pictures.push(picture);
                }
            }
        }
        let mut found = self.found.lock();
        for picture in &pictures {
            if !found.iter().any(|one| Arc::ptr_eq(one, picture)) {
                found.push(picture.clone());
            }
        }
        drop(found);
        Ok(Shown { texts, pictures })
    }
}

fn pieces(picture: &Picture, rule: &vision::Rule) -> Vec<ImagePiece> {
    let mut next = picture.rows.start;
    let pieces = vision::expand(rule, &picture.plan).into_iter();
    let pieces = pieces.map(|piece| match piece {
        Piece::Text(text) => ImagePiece::Text(text),
        Piece::Rows { count, .. } => {
            let first = next;
            next = next.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
            ImagePiece::Rows(first..next)
        }
    });
    pieces.collect()
}

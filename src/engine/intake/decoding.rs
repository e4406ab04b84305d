//! Decodes the images of requests before they are queued, on threads of low priority.
//!
//! Images that the previous turn has shown are in the cache. If it has lost them, the engine thread has them decoded
//! (`prepare`).

use std::sync::Arc;

use super::accept::{Submission, unstarted, unwanted};
use crate::engine::caller::handle::Handle;
use crate::engine::caller::request::{Options, Refusal};
use crate::engine::picture::decode;
use crate::engine::picture::picture::Picture;
use crate::engine::picture::pictures::Pictures;
use crate::engine::picture::sight::Sight;
use crate::engine::prompt::encoder::{Encoded, Encoder};
use crate::engine::prompt::workers::Interest;
use crate::model::Message;
use crate::vision::ImageError;

impl Handle {
    /// Decodes the images of a prompt that are not in the cache, and have neither pixels nor embeddings. A request whose
    /// deadline passes meanwhile is queued, and ends there.
    ///
    /// # Errors
    /// `Image`, `UserPixels`, `TooManyPixels`.
    pub(super) async fn decode(
        &self,
        submission: &Submission,
        encoder: &Encoder,
        (messages, prompt): (&[Message], &Encoded),
        options: &Options,
    ) -> Result<(), Refusal> {
        let Some(sight) = encoder.sight() else {
            return Ok(());
        };
        let new = &prompt.prompt.tokens[prompt.past.min(prompt.prompt.tokens.len())..];
        let pictures = prompt.pictures.iter();
        let bare = pictures.filter(|picture| picture.is_bare() && picture.is_in(new));
        let bare: Vec<_> = bare.cloned().collect();
        if bare.is_empty() {
            return Ok(());
        }
        let (shared, sight) = (self.shared.pictures.clone(), sight.clone());
        let decode = move |wanted: &Interest| {
            let stop = || !wanted.is_wanted();
            let one = |picture: &Arc<Picture>| decoded(&shared, picture, &sight, &stop);
            bare.iter().try_for_each(one)
        };
        let decoders = &self.shared.decoders;
        let decoded = decoders.run(
            submission.registration.id(),
            submission.client.clone(),
            decode,
        );
        let decoded = match options.deadline.map(|after| submission.asked + after) {
            None => decoded.await,
            Some(deadline) => match tokio::time::timeout_at(deadline.into(), decoded).await {
                Ok(decoded) => decoded,
                Err(_) => return Ok(()),
            },
        };
        let decoded = decoded.map_err(|error| unstarted(&error))?;
        let decoded = decoded.unwrap_or_else(|| Err(Failed::Refused(unwanted(submission))));
        decoded.map_err(|failed| match failed {
            Failed::Refused(refusal) => refusal,
            Failed::Image(_, ImageError::Cancelled) => unwanted(submission),
            Failed::Image(picture, error) => at_fault(messages, &picture, error),
        })
    }
}

/// Why an image was not decoded.
enum Failed {
    Refused(Refusal),
    Image(Arc<Picture>, ImageError),
}

fn decoded(
    pictures: &Pictures,
    picture: &Arc<Picture>,
    sight: &Sight,
    stop: &dyn Fn() -> bool,
) -> Result<(), Failed> {
    // Another request may have decoded it meanwhile.
    if !picture.is_bare() {
        return Ok(());
    }
    let bytes = sight.processor.memory(&picture.plan);
    let admitted = pictures.admit_pixels(picture.key.user, bytes);
    admitted.map_err(Failed::Refused)?;
    let pixels = decode::pixels(&picture.received, &sight.processor, &picture.plan, stop);
    let pixels = pixels.map_err(|error| Failed::Image(picture.clone(), error))?;
    picture.set_pixels(Some(Arc::new(pixels)));
    Ok(())
}

/// Returns the refusal that names the newest image with the bytes of a picture.
fn at_fault(messages: &[Message], picture: &Picture, error: ImageError) -> Refusal {
    let numbered = messages.iter().enumerate().rev();
    let place = numbered.into_iter().find_map(|(message, said)| {
        let is_it =
            |image: &crate::model::MessageImage| image.image.as_deref() == Some(&*picture.received);
        Some((message, said.images.iter().position(is_it)?))
    });
    let (message, image) = place.unwrap_or_default();
    Refusal::Image {
        message,
        image,
        error,
    }
}

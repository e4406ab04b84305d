//! Images of requests: reads their bytes and checks their headers, before the requests reach the engine.
//!
//! Each user has one reader thread at a time, of low priority, so a file that answers slowly delays its own user alone. The
//! engine bounds the bytes of a user's images and those of all users, and decodes the pixels.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

use super::error::Error;
use super::image_error::ImageError;
use super::image_file;
use super::messages::PlacedImage;
use super::parts::ImageBytes;
use crate::engine::{Handle, MessageImage, Refusal};
use crate::vision::{self, Limits, Received};

/// The longest time for the images of one request, the wait for earlier ones of the same user included.
const PATIENCE: Duration = Duration::from_secs(10);
/// The nice value of the readers. A thread with 10 yields most of the time to threads with 0.
const NICE: i32 = 10;

/// The limits of images, as the configuration sets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageLimits {
    /// Pixels of one image as received.
    pub max_pixels: u64,
    /// The tokens that one image may take.
    pub max_tokens: u32,
    /// Images of one request.
    pub max_images: usize,
}

impl Default for ImageLimits {
    fn default() -> Self {
        Self {
            max_pixels: Limits::USUAL_PIXELS,
            max_tokens: 1024,
            max_images: 8,
        }
    }
}

/// An image whose header was read and whose limits were checked, and its place. Its bytes count against its user until it is
/// dropped.
#[derive(Debug)]
pub(super) struct OpenedImage {
    /// The index of its message in the conversation.
    pub(super) message: usize,
    pub(super) image: MessageImage,
}

/// The readers of all users; clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Images {
    engine: Handle,
    users: Arc<Mutex<HashMap<u32, User>>>,
}

#[derive(Debug)]
struct User {
    /// Its one permit is for the reader.
    reader: Arc<Semaphore>,
    /// Requests that have, or wait for, the reader.
    requests: usize,
}

impl Default for User {
    fn default() -> Self {
        Self {
            reader: Arc::new(Semaphore::new(1)),
            requests: 0,
        }
    }
}

/// A request that has, or waits for, the reader of its user.
#[derive(Debug)]
struct Turn {
    images: Images,
    user: u32,
}

impl Images {
    pub(super) fn new(engine: Handle) -> Self {
        Self {
            engine,
            users: Arc::default(),
        }
    }

    /// Reads and checks the images of a request of `user`.
    pub(super) async fn open(
        &self,
        user: u32,
        given: Vec<PlacedImage>,
        limits: ImageLimits,
    ) -> Result<Vec<OpenedImage>, Error> {
        if given.len() > limits.max_images {
            return Err(Error::TooManyImages {
                images: given.len(),
                limit: limits.max_images,
            });
        }
        let unwanted = Unwanted::default();
        timeout(PATIENCE, self.read(user, given, limits, unwanted.0.clone()))
            .await
            .unwrap_or(Err(Error::SlowImages))
    }

    async fn read(
        &self,
        user: u32,
        given: Vec<PlacedImage>,
        limits: ImageLimits,
        unwanted: Arc<AtomicBool>,
    ) -> Result<Vec<OpenedImage>, Error> {
        let (turn, reader) = self.turn(user);
        // The semaphore is never closed.
        let permit = reader.acquire_owned().await.ok();
        let (done, read) = oneshot::channel();
        let job = Job {
            images: self.clone(),
            user,
            limits,
            unwanted,
            held: (turn, permit),
        };
        let thread = thread::Builder::new().name("images".into());
        let spawned = thread.spawn(move || {
            // Without low priority it reads all the same.
            let _ = rustix::process::nice(NICE);
            // A caller that waits no longer needs no answer.
            let _ = done.send(job.run(given));
        });
        let failed = |why: String| Error::ReaderFailed(why);
        spawned.map_err(|error| failed(error.to_string()))?;
        read.await
            .unwrap_or_else(|_| Err(failed("its thread has ended".into())))
    }

    fn turn(&self, user: u32) -> (Turn, Arc<Semaphore>) {
        let mut users = self.users.lock();
        let of_user = users.entry(user).or_default();
        of_user.requests += 1;
        let turn = Turn {
            images: self.clone(),
            user,
        };
        (turn, of_user.reader.clone())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut users = self.images.users.lock();
        if let Some(user) = users.get_mut(&self.user) {
            user.requests -= 1;
            if user.requests == 0 {
                users.remove(&self.user);
            }
        }
    }
}

/// Set when the caller waits no longer.
#[derive(Default)]
struct Unwanted(Arc<AtomicBool>);

impl Drop for Unwanted {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The reading of the images of one request.
struct Job {
    images: Images,
    user: u32,
    limits: ImageLimits,
    unwanted: Arc<AtomicBool>,
    /// Dropped when the images are read: the permit first, so that no second reader is made meanwhile.
    held: (Turn, Option<OwnedSemaphorePermit>),
}

impl Job {
    fn run(self, given: Vec<PlacedImage>) -> Result<Vec<OpenedImage>, Error> {
        let opened = given.into_iter().map(|placed| self.open(placed)).collect();
        let (turn, permit) = self.held;
        drop(permit);
        drop(turn);
        opened
    }

    fn open(&self, placed: PlacedImage) -> Result<OpenedImage, Error> {
        let (message, part) = placed.given_as;
        self.checked(placed).map_err(|why| match why {
            Why::Refused(refusal) => Error::Refused(refusal),
            Why::Image(error) => Error::Image {
                message,
                part,
                error,
            },
        })
    }

    fn checked(&self, placed: PlacedImage) -> Result<OpenedImage, Why> {
        let PlacedImage {
            message, at, image, ..
        } = placed;
        let fields = image.fields;
        let limit = self.limits.max_tokens;
        if let Some(given) = fields.max_tokens.filter(|given| *given > limit) {
            return Err(ImageError::MaxTokens { given, limit }.into());
        }
        let limits = Limits::of_pixels(self.limits.max_pixels);
        let engine = &self.images.engine;
        let take = |bytes| (engine.image_quota()).take(self.user, bytes, limits.max_bytes);
        let (share, bytes) = match image.bytes {
            ImageBytes::Data(bytes) => (take(bytes.len())?, bytes[..].into()),
            ImageBytes::File(file) => {
                let bytes = image_file::size(&file).map_err(ImageError::from)?;
                if bytes > limits.max_bytes {
                    let limit = limits.max_bytes;
                    let error = vision::ImageError::TooManyBytes { bytes, limit };
                    return Err(ImageError::from(error).into());
                }
                let share = take(bytes)?;
                let stop = || self.unwanted.load(Ordering::Relaxed);
                let read = image_file::read(&file, bytes, &stop).map_err(ImageError::from)?;
                (share, read.into_boxed_slice())
            }
        };
        let received = Received::new(bytes, fields, share);
        let opened = received.source().open(&limits);
        opened.map(drop).map_err(ImageError::from)?;
        engine.plan_image(&received).map_err(ImageError::from)?;
        let image = MessageImage {
            at,
            image: Some(Arc::new(received)),
        };
        Ok(OpenedImage { message, image })
    }
}

enum Why {
    Refused(Refusal),
    Image(ImageError),
}

impl From<Refusal> for Why {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<ImageError> for Why {
    fn from(error: ImageError) -> Self {
        Self::Image(error)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use nix::sys::memfd::{MFdFlags, memfd_create};
    use nix::unistd::{ftruncate, pipe, write};

    use super::*;
    use crate::engine::{Share, UserLimits, channel};
    use crate::front::image_file::FileError;
    use crate::front::parts::GivenImage;
    use crate::vision::Fields;

    const USER: u32 = 7;

    fn limits() -> crate::engine::Limits {
        crate::engine::Limits {
            requests: 1,
            queue: 1,
            sessions: 1,
            prefill: Share {
                slice: Duration::from_millis(1),
                percent: 50,
            },
            grammar: crate::guide::Limits::USUAL,
            user: UserLimits {
                requests: 1,
                sessions: 1,
                queue_percent: 100,
                kv_percent: 100,
            },
        }
    }

    fn memfd(bytes: &[u8]) -> OwnedFd {
        let file = memfd_create("image", MFdFlags::empty()).unwrap();
        write(&file, bytes).unwrap();
        file
    }

    fn placed(bytes: ImageBytes) -> PlacedImage {
        PlacedImage {
            message: 0,
            at: 0,
            given_as: (0, 1),
            image: GivenImage {
                bytes,
                fields: Fields {
                    format: vision::Format::Gray8,
                    width: Some(4),
                    height: Some(2),
                    ..Fields::default()
                },
            },
        }
    }

    #[tokio::test]
    async fn bytes_count_against_the_user_until_the_image_is_dropped() {
        let (engine, _receiver) = channel(limits());
        let images = Images::new(engine.clone());
        let file = ImageBytes::File(Arc::new(memfd(b"12345678")));
        let given = vec![
            placed(file),
            placed(ImageBytes::Data(b"87654321"[..].into())),
        ];
        let opened = images.open(USER, given, ImageLimits::default());
        let opened = opened.await.unwrap();
        let image = opened[0].image.image.as_ref().unwrap();
        assert_eq!(image.source().bytes, b"12345678");
        assert_eq!(engine.image_quota().of_user(USER), 16);
        drop(opened);
        assert_eq!(engine.image_quota().of_user(USER), 0);
        assert!(images.users.lock().is_empty());
    }

    #[tokio::test]
    async fn a_file_that_is_none_or_shrinks_is_an_error() {
        let (engine, _receiver) = channel(limits());
        let images = Images::new(engine);
        let (reader, _writer) = pipe().unwrap();
        let file = ImageBytes::File(Arc::new(reader));
        let refused = images.open(USER, vec![placed(file)], ImageLimits::default());
        let why = refused.await.unwrap_err().to_string();
        assert!(
            why.starts_with("message 0: part 1: its descriptor is a pipe"),
            "{why}"
        );
        let file = memfd(b"12345678");
        let bytes = image_file::size(&file).unwrap();
        ftruncate(&file, 5).unwrap();
        let shrunk = image_file::read(&file, bytes, &|| false);
        assert_eq!(shrunk, Err(FileError::Shrunk { read: 5, bytes: 8 }));
        assert!(images.users.lock().is_empty());
    }
}

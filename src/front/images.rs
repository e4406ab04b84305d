//! Images of requests: reads their bytes and checks their headers, before the requests reach the engine.
//!
//! Each user has one reader thread at a time, of low priority, so a file that answers slowly delays its own user alone. The
//! bytes of a user's images are bounded, and so are those of all users. Pixels are not decoded here.

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
use super::parts::{ImageBytes, ImageFields};
use crate::engine::Refusal;
use crate::vision::{self, Limits};

/// The longest time for the images of one request, the wait for earlier ones of the same user included.
const PATIENCE: Duration = Duration::from_secs(10);
/// The nice value of the readers. A thread with 10 yields most of the time to threads with 0.
const NICE: i32 = 10;
/// Bytes that the images of one user, and of all users, may have: a multiple of the bytes of the largest image.
const OF_USER: usize = 2;
const OF_ALL: usize = 4;

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

/// An image whose header was read and whose limits were checked. Its bytes count against its user until it is dropped.
#[derive(Debug)]
pub struct Image {
    /// The index of its message in the conversation.
    pub message: usize,
    /// The byte of the message's content before which it stands.
    pub at: usize,
    bytes: Content,
    pub fields: ImageFields,
    _share: Share,
}

impl Image {
    /// Returns the bytes and what the caller says of them.
    #[must_use]
    pub fn source(&self) -> vision::Source<'_> {
        let bytes = match &self.bytes {
            Content::Read(bytes) => bytes,
            Content::Data(bytes) => &**bytes,
        };
        self.fields.source(bytes)
    }
}

enum Content {
    Read(Vec<u8>),
    Data(Arc<[u8]>),
}

/// The bytes are left out.
impl std::fmt::Debug for Content {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("..")
    }
}

/// The images of all users; clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Images(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Bytes of all users.
    bytes: usize,
    users: HashMap<u32, User>,
}

#[derive(Debug)]
struct User {
    bytes: usize,
    /// Its one permit is for the reader.
    reader: Arc<Semaphore>,
    /// Requests that have, or wait for, the reader.
    requests: usize,
}

impl Default for User {
    fn default() -> Self {
        Self {
            bytes: 0,
            reader: Arc::new(Semaphore::new(1)),
            requests: 0,
        }
    }
}

/// Bytes of a user's images, until this is dropped.
#[derive(Debug)]
struct Share {
    images: Images,
    user: u32,
    bytes: usize,
}

/// A request that has, or waits for, the reader of its user.
#[derive(Debug)]
struct Turn {
    images: Images,
    user: u32,
}

impl Images {
    /// Reads and checks the images of a request of `user`.
    pub(super) async fn open(
        &self,
        user: u32,
        given: Vec<PlacedImage>,
        limits: ImageLimits,
    ) -> Result<Vec<Image>, Error> {
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
    ) -> Result<Vec<Image>, Error> {
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
        let mut state = self.0.lock();
        let of_user = state.users.entry(user).or_default();
        of_user.requests += 1;
        let turn = Turn {
            images: self.clone(),
            user,
        };
        (turn, of_user.reader.clone())
    }

    /// Counts bytes of a user, if there is room for them.
    fn take(&self, user: u32, bytes: usize, limits: &Limits) -> Result<Share, Refusal> {
        let (of_user, of_all) = (
            limits.max_bytes.saturating_mul(OF_USER),
            limits.max_bytes.saturating_mul(OF_ALL),
        );
        let mut state = self.0.lock();
        let held = state.users.get(&user).map_or(0, |user| user.bytes);
        if held.saturating_add(bytes) > of_user {
            return Err(Refusal::UserImages {
                user,
                bytes: of_user,
            });
        }
        if state.bytes.saturating_add(bytes) > of_all {
            return Err(Refusal::TooManyImages { bytes: of_all });
        }
        state.bytes += bytes;
        state.users.entry(user).or_default().bytes += bytes;
        Ok(Share {
            images: self.clone(),
            user,
            bytes,
        })
    }

    /// Changes a user, and forgets one that has nothing.
    fn change(&self, user: u32, change: impl FnOnce(&mut State)) {
        let mut state = self.0.lock();
        change(&mut state);
        let is_idle = |user: &User| user.bytes == 0 && user.requests == 0;
        if state.users.get(&user).is_some_and(is_idle) {
            state.users.remove(&user);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let bytes = self.bytes;
        self.images.change(self.user, |state| {
            state.bytes -= bytes;
            if let Some(user) = state.users.get_mut(&self.user) {
                user.bytes -= bytes;
            }
        });
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.images.change(self.user, |state| {
            if let Some(user) = state.users.get_mut(&self.user) {
                user.requests -= 1;
            }
        });
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
    fn run(self, given: Vec<PlacedImage>) -> Result<Vec<Image>, Error> {
        let opened = given.into_iter().map(|placed| self.open(placed)).collect();
        let (turn, permit) = self.held;
        drop(permit);
        drop(turn);
        opened
    }

    fn open(&self, placed: PlacedImage) -> Result<Image, Error> {
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

    fn checked(&self, placed: PlacedImage) -> Result<Image, Why> {
        let PlacedImage {
            message, at, image, ..
        } = placed;
        let fields = image.fields;
        let limit = self.limits.max_tokens;
        if let Some(given) = fields.max_tokens.filter(|given| *given > limit) {
            return Err(ImageError::MaxTokens { given, limit }.into());
        }
        let limits = Limits::of_pixels(self.limits.max_pixels);
        let (share, bytes) = match image.bytes {
            ImageBytes::Data(bytes) => {
                let share = self.images.take(self.user, bytes.len(), &limits)?;
                (share, Content::Data(bytes))
            }
            ImageBytes::File(file) => {
                let bytes = image_file::size(&file).map_err(ImageError::from)?;
                if bytes > limits.max_bytes {
                    let limit = limits.max_bytes;
                    let error = vision::ImageError::TooManyBytes { bytes, limit };
                    return Err(ImageError::from(error).into());
                }
                let share = self.images.take(self.user, bytes, &limits)?;
                let stop = || self.unwanted.load(Ordering::Relaxed);
                let read = image_file::read(&file, bytes, &stop).map_err(ImageError::from)?;
                (share, Content::Read(read))
            }
        };
        let image = Image {
            message,
            at,
            bytes,
            fields,
            _share: share,
        };
        image.source().open(&limits).map_err(ImageError::from)?;
        Ok(image)
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
    use crate::front::image_file::FileError;
    use crate::front::parts::GivenImage;

    const USER: u32 = 7;

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
                fields: ImageFields {
                    format: vision::Format::Gray8,
                    width: Some(4),
                    height: Some(2),
                    ..ImageFields::default()
                },
            },
        }
    }

    #[tokio::test]
    async fn bytes_count_against_the_user_until_the_image_is_dropped() {
        let images = Images::default();
        let limits = ImageLimits::default();
        let file = ImageBytes::File(Arc::new(memfd(b"12345678")));
        let given = vec![
            placed(file),
            placed(ImageBytes::Data(b"87654321"[..].into())),
        ];
        let opened = images.open(USER, given, limits).await.unwrap();
        assert_eq!(opened[0].source().bytes, b"12345678");
        assert_eq!(images.0.lock().users[&USER].bytes, 16);
        let most = Limits::of_pixels(limits.max_pixels);
        let refused = images.take(USER, 2 * most.max_bytes - 15, &most);
        assert!(matches!(
            refused,
            Err(Refusal::UserImages { user: USER, .. })
        ));
        let others = images.take(USER + 1, 2 * most.max_bytes, &most).unwrap();
        let all = images.take(USER + 2, 2 * most.max_bytes, &most);
        assert!(matches!(all, Err(Refusal::TooManyImages { .. })));
        drop((opened, others));
        let state = images.0.lock();
        assert_eq!((state.bytes, state.users.len()), (0, 0));
    }

    #[tokio::test]
    async fn a_file_that_is_none_or_shrinks_is_an_error() {
        let images = Images::default();
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
        assert!(images.0.lock().users.is_empty());
    }
}

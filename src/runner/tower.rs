//! One vision tower on one executor: from the patches of an image to embeddings of a language model, in parts.
//!
//! It decodes and resizes no image, and caches no embeddings.

use crate::executor::{Encode, ExecuteError};
use crate::model::tower::forward::TowerBuffers;
use crate::model::tower::{Grid, GridError, PositionTable, TowerForward, TowerShape};
use crate::tape::{Buffer, Tape, TapeError};

/// Rows that the host prepares at a time.
const ROWS: usize = 64;

/// Why an image cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    #[error(transparent)]
    Grid(#[from] GridError),
    #[error("{given} values are not {patches} patches of {each}: send every patch once")]
    Pixels {
        given: usize,
        patches: usize,
        each: usize,
    },
    #[error("the vision tower does not fit its tape: {0}")]
    Tape(#[from] TapeError),
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    #[error(
        "the vision tower's output is not a finite number: its file is damaged, or its values exceed the type of \
         the activations"
    )]
    NonFinite,
}

/// The embeddings of an image.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Embeddings {
    pub tokens: usize,
    /// The width of the language model.
    pub width: usize,
    /// (tokens, width)
    pub values: Vec<f32>,
    /// (tokens, width) for each of the first layers of the language model (Qwen3-VL), which add it after themselves.
    pub deepstack: Vec<Vec<f32>>,
}

/// A vision tower whose memory is reserved for images of up to a number of patches.
#[derive(Debug)]
pub struct Tower {
    forward: TowerForward,
    executor: Box<dyn Encode>,
    positions: PositionTable,
    /// The most patches of an image.
    patches: usize,
    /// Bytes of the weights, in the memory of the executor and of the host.
    weight_bytes: u64,
    /// Rows that are being prepared.
    staging: Vec<f32>,
    image: Option<Image>,
}

/// An image that is being encoded.
#[derive(Debug)]
struct Image {
    grid: Grid,
    tape: Tape,
    at: TowerBuffers,
    /// The operations before which a run can pause, and the end of the tape.
    ends: Vec<usize>,
    /// The number of parts that have run.
    ran: usize,
    /// The results that have been read: the embeddings, then those of `DeepStack`.
    read: Vec<Vec<f32>>,
}

impl Image {
    /// The next result to read, after the last part.
    fn unread(&self) -> Option<Buffer> {
        let embeddings = std::iter::once(self.at.embeddings);
        let mut results = embeddings.chain(self.at.deepstack.iter().copied());
        results.nth(self.read.len())
    }
}

impl Tower {
    /// Reserves the memory of images of up to `patches` patches. An image allocates only its geometry and its embeddings.
    ///
    /// # Errors
    /// If the tower does not fit its tape, or there is not enough memory.
    pub(crate) fn new(
        forward: TowerForward,
        mut executor: Box<dyn Encode>,
        positions: PositionTable,
        (patches, weight_bytes): (usize, u64),
    ) -> Result<Self, EncodeError> {
        let (widest, _) = forward.tape(forward.shape.widest(patches));
        widest.check()?;
        executor.reserve(&widest)?;
        let shape = &forward.shape;
        let each = shape.patch.multiplied().max(shape.head_dim);
        let staging = Vec::with_capacity(ROWS * each);
        Ok(Self {
            patches: widest.rows.max(patches),
            forward,
            executor,
            positions,
            weight_bytes,
            staging,
            image: None,
        })
    }

    /// Returns the dimensions and properties of the tower.
    #[must_use]
    pub fn shape(&self) -> &TowerShape {
        &self.forward.shape
    }

    /// Returns the most patches of an image.
    #[must_use]
    pub fn most_patches(&self) -> usize {
        self.patches
    }

    /// Returns the bytes of the weights, and of the memory that images are encoded in.
    #[must_use]
    pub fn memory(&self) -> [u64; 2] {
        [self.weight_bytes, self.executor.reserved_bytes()]
    }

    /// Encodes an image: `pixels` are its patches in the order of the tower, `PatchShape::received` values each.
    ///
    /// # Errors
    /// As `begin` and `advance`.
    pub fn embed(&mut self, pixels: &[f32], grid: Grid) -> Result<Embeddings, EncodeError> {
        self.begin(pixels, grid)?;
        loop {
            if let Some(embeddings) = self.advance(&mut || false)? {
                return Ok(embeddings);
            }
        }
    }

    /// Begins an image, in place of one that has not ended.
    ///
    /// # Errors
    /// If the tower cannot read such an image, or the device has failed.
    pub fn begin(&mut self, pixels: &[f32], grid: Grid) -> Result<(), EncodeError> {
        self.image = None;
        let shape = &self.forward.shape;
        shape.check_grid(grid)?;
        let (patches, each) = (grid.patches(), shape.patch.received());
        if patches > self.patches {
            let most = self.patches;
            return Err(GridError::Patches { patches, most }.into());
        }
        if pixels.len() != patches * each {
            let given = pixels.len();
            return Err(EncodeError::Pixels {
                given,
                patches,
                each,
            });
        }
        let (tape, at) = self.forward.tape(grid);
        tape.check()?;
        self.write_pixels(&tape, &at, pixels)?;
        let (executor, forward) = (&mut self.executor, &self.forward);
        self.positions.rows(&forward.shape, grid, |first, rows| {
            executor.write_rows(&tape, at.x, first, rows)
        })?;
        if let (Some(turns), Some(rotation)) = (at.turns, forward.shape.rotation) {
            let mut values = Vec::new();
            rotation.turns(&forward.shape, grid, &mut values);
            executor.write_rows(&tape, turns, 0, &values)?;
        }
        let mut ends: Vec<usize> = tape.pauses().collect();
        if ends.last() != Some(&tape.ops.len()) {
            ends.push(tape.ops.len());
        }
        self.image = Some(Image {
            grid,
            tape,
            at,
            ends,
            ran: 0,
            read: Vec::new(),
        });
        Ok(())
    }

    /// Writes patches of one picture, in the range of the tower.
    fn write_pixels(
        &mut self,
        tape: &Tape,
        at: &TowerBuffers,
        pixels: &[f32],
    ) -> Result<(), EncodeError> {
        let patch = self.forward.shape.patch;
        let each = patch.received();
        for (index, rows) in pixels.chunks(ROWS * each).enumerate() {
            self.staging.clear();
            for row in rows.chunks_exact(each) {
                // All pictures of a patch are equal, and the first product has the sum of their kernels.
                let length = patch.size * patch.size;
                let channels = row.chunks_exact(patch.frames * length);
                if patch.frames > 1 {
                    let firsts = channels.flat_map(|pictures| &pictures[..length]);
                    self.staging.extend(firsts);
                } else {
                    self.staging.extend_from_slice(row);
                }
            }
            if patch.recentered {
                let values = self.staging.iter_mut();
                values.for_each(|value| *value = 2.0 * (*value - 0.5));
            }
            let first = index * ROWS;
            (self.executor).write_rows(tape, at.pixels, first, &self.staging)?;
        }
        Ok(())
    }

    /// Whether an image has begun and not ended.
    #[must_use]
    pub fn is_encoding(&self) -> bool {
        self.image.is_some()
    }

    /// Returns the parts of the image that have run, and all of them. A part is half a block, or the projector.
    #[must_use]
    pub fn progress(&self) -> [usize; 2] {
        let image = self.image.as_ref();
        image.map_or([0, 0], |image| [image.ran, image.ends.len()])
    }

    /// Continues the image until `pauses`, which is called after each part and each result, returns true. Returns the
    /// embeddings at the end, and `None` before it or without an image.
    ///
    /// # Errors
    /// If the device fails or a result is not finite. The image has then ended.
    pub fn advance(
        &mut self,
        pauses: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Embeddings>, EncodeError> {
        let Some(mut image) = self.image.take() else {
            return Ok(None);
        };
        while let Some(end) = image.ends.get(image.ran).copied() {
            let begin = image.ran.checked_sub(1).map_or(0, |last| image.ends[last]);
            self.executor.run_operations(&image.tape, begin..end)?;
            image.ran += 1;
            if pauses() {
                self.image = Some(image);
                return Ok(None);
            }
        }
        while let Some(buffer) = image.unread() {
            let mut values = Vec::new();
            (self.executor).read_rows(&image.tape, buffer, &mut values)?;
            if !values.iter().all(|value: &f32| value.is_finite()) {
                return Err(EncodeError::NonFinite);
            }
            image.read.push(values);
            if image.unread().is_some() && pauses() {
                self.image = Some(image);
                return Ok(None);
            }
        }
        Ok(Some(self.embeddings(image)))
    }

    /// Ends the image without embeddings.
    pub fn cancel(&mut self) {
        self.image = None;
    }

    /// Appends the residual stream of the image after its last part, (patches, hidden), for comparisons.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn read_hidden(&mut self, out: &mut Vec<f32>) -> Result<(), EncodeError> {
        if let Some(image) = &self.image {
            self.executor.read_rows(&image.tape, image.at.x, out)?;
        }
        Ok(())
    }

    fn embeddings(&self, image: Image) -> Embeddings {
        let shape = &self.forward.shape;
        let mut read = image.read.into_iter();
        Embeddings {
            tokens: shape.tokens(image.grid),
            width: shape.projector.text,
            values: read.next().unwrap_or_default(),
            deepstack: read.collect(),
        }
    }
}

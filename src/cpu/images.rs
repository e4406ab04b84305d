//! The rows of a prompt that are embeddings of images, and the positions that rows rotate by.

use std::ops::Range;

use super::rows::Run;
use crate::executor::{ImageError, ImagePrompt};
use crate::tape::{ImageRows, Op, Tape};

/// The images of the prompt that runs. Other runs have none.
#[derive(Clone, Debug, Default)]
pub(super) struct Images {
    /// The rows of each image.
    pub(super) spans: Vec<Range<usize>>,
    /// The position of each row in time, row and column; empty if it is that of text.
    positions: Vec<[u32; 3]>,
}

/// The positions of the rows of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places<'a> {
    /// The position of the first row in the cache.
    pub(super) position: usize,
    /// The position that the first row rotates by, if it is text.
    first: usize,
    positions: &'a [[u32; 3]],
}

impl Places<'_> {
    /// The position that a row rotates by: time, row and column.
    pub(super) fn turned(self, row: usize) -> [usize; 3] {
        let stated = self.positions.get(row);
        stated.map_or([self.first + row; 3], |position| {
            position.map(|part| part as usize)
        })
    }
}

impl Images {
    pub(super) fn clear(&mut self) {
        self.spans.clear();
        self.positions.clear();
    }

    pub(super) fn places(&self, run: &Run) -> Places<'_> {
        Places {
            position: run.state.position,
            first: run.turned,
            positions: &self.positions,
        }
    }

    /// Runs an operation on the rows of images.
    pub(super) fn apply(&self, op: ImageRows, tape: &Tape, rows: &[f32], x: &mut [f32]) {
        let (width, columns) = (tape.buffer(op.rows()).columns, tape.buffer(op.x()).columns);
        for row in self.spans.iter().cloned().flatten() {
            let x = &mut x[row * columns..][..columns];
            let own = &rows[row * width..][..width];
            match op {
                ImageRows::Place { .. } => x.copy_from_slice(own),
                ImageRows::Add { first, .. } => {
                    let added = x.iter_mut().zip(&own[first..]);
                    added.for_each(|(x, added)| *x += added);
                }
            }
        }
    }

    /// Copies the images of a prompt into the buffers of its tape, which is prepared.
    ///
    /// # Errors
    /// If the images do not fit the tape.
    pub(super) fn place(
        &mut self,
        tape: &Tape,
        prompt: &ImagePrompt<'_>,
        activations: &mut [Vec<f32>],
    ) -> Result<(), ImageError> {
        self.clear();
        let spans = prompt.spans(tape)?;
        // The further embeddings have the order of their layers.
        let mut stacks = 0;
        for op in &tape.ops {
            let Op::Images(op) = op else { continue };
            let (width, columns) = (tape.buffer(op.rows()).columns, tape.buffer(op.x()).columns);
            let buffer = &mut activations[op.rows().0];
            let (stack, first) = match *op {
                ImageRows::Place { .. } => (None, 0),
                ImageRows::Add { first, .. } => (Some(stacks), first),
            };
            stacks += usize::from(stack.is_some());
            for image in prompt.images {
                let values = stack.map_or(image.values, |stack| image.deepstack[stack]);
                for (row, values) in (image.first..).zip(values.chunks_exact(columns)) {
                    buffer[row * width + first..][..columns].copy_from_slice(values);
                }
            }
        }
        *self = Self {
            spans,
            positions: prompt.positions.to_vec(),
        };
        Ok(())
    }
}

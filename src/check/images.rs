//! Prompts with images: how a case runs, and plain loops over its rows.

use std::ops::Range;

use super::case::Case;
use super::inputs::Inputs;
use crate::executor::{ExecuteError, ImagePrompt, ImageSpan, Probe};
use crate::tape::{Buffer, ImageRows, Op};

impl Case {
    /// The position that a row rotates by: those of images have three parts.
    pub(super) fn turned(&self, row: usize, position: usize) -> [usize; 3] {
        let Some(image) = self.image(row) else {
            return [position; 3];
        };
        let at = row - image.start;
        [
            self.position + image.start,
            self.position + 3 + at / 4,
            self.position + at % 4,
        ]
    }

    /// The image that a row belongs to.
    pub(super) fn image(&self, row: usize) -> Option<Range<usize>> {
        let mut images = self.images.iter();
        images.find(|image| image.contains(&row)).cloned()
    }

    /// Runs the case on an executor, with the embeddings that are in its buffers.
    pub(super) fn run_images(
        &self,
        inputs: &Inputs,
        subject: &mut (impl Probe + ?Sized),
    ) -> Result<(), ExecuteError> {
        let columns = |buffer: Buffer| self.tape.buffer(buffer).columns;
        let mut rotates = false;
        // The embeddings of all rows that each operation takes.
        let (mut placed, mut added) = (None, None);
        for op in &self.tape.ops {
            let of = |rows: Buffer| inputs.buffers.iter().find(|(buffer, _)| *buffer == rows);
            match *op {
                Op::Images(ImageRows::Place { rows, .. }) => {
                    placed = of(rows).map(|(_, values)| values.clone());
                }
                Op::Images(ImageRows::Add { rows, first, x }) => {
                    let values = of(rows).map_or(&[][..], |(_, values)| values.as_slice());
                    let rows = values.chunks_exact(columns(rows));
                    let parts = rows.flat_map(|row| &row[first..first + columns(x)]);
                    added = Some(parts.copied().collect::<Vec<f32>>());
                }
                Op::RopeStore { rotation, .. } => rotates = rotation.sections.is_some(),
                _ => {}
            }
        }
        let part = |values: &Option<Vec<f32>>, image: &Range<usize>| {
            let values = values.as_deref().unwrap_or_default();
            let width = values.len() / self.tape.rows;
            image.start * width..image.end * width
        };
        let stacks = self.images.iter().map(|image| {
            let all = added.iter();
            let parts = all.map(|values| &values[part(&added, image)]);
            parts.collect::<Vec<&[f32]>>()
        });
        let stacks: Vec<_> = stacks.collect();
        let spans = self.images.iter().zip(&stacks).map(|(image, deepstack)| {
            let values = placed.as_deref().unwrap_or_default();
            ImageSpan {
                first: image.start,
                rows: image.len(),
                values: &values[part(&placed, image)],
                deepstack,
                is_whole: true,
            }
        });
        let spans: Vec<_> = spans.collect();
        let narrow = |part: usize| u32::try_from(part).unwrap_or(u32::MAX);
        let rows = (0..self.tokens.len()).filter(|_| rotates);
        let positions = rows.map(|row| self.turned(row, self.position + row).map(narrow));
        let positions: Vec<_> = positions.collect();
        let prompt = ImagePrompt {
            tokens: &self.tokens,
            images: &spans,
            positions: &positions,
        };
        subject.run_images_part(&self.tape, &prompt)
    }

    /// The residual stream after an operation on the rows of images; `None` for other cases.
    pub(super) fn shown(&self, inputs: &Inputs) -> Option<Vec<f64>> {
        let Op::Images(op) = *self.op() else {
            return None;
        };
        let of = |buffer: Buffer| {
            let mut inputs = inputs.buffers.iter();
            inputs
                .find(|(of, _)| *of == buffer)
                .map(|(_, values)| values)
        };
        let (rows, x) = (of(op.rows())?, of(op.x())?);
        let (width, columns) = (
            self.tape.buffer(op.rows()).columns,
            self.tape.buffer(op.x()).columns,
        );
        let mut shown: Vec<f64> = x.iter().copied().map(f64::from).collect();
        for (row, x) in shown.chunks_exact_mut(columns).enumerate() {
            let own = &rows[row * width..][..width];
            if self.image(row).is_none() {
                continue;
            }
            for (column, x) in x.iter_mut().enumerate() {
                match op {
                    ImageRows::Place { .. } => *x = f64::from(own[column]),
                    ImageRows::Add { first, .. } => *x += f64::from(own[first + column]),
                }
            }
        }
        Some(shown)
    }
}

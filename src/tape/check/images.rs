//! The operations of prompts with images.

use super::super::image::ImageRows;
use super::super::op::Op;
use super::super::operands::Buffer;
use super::super::{Input, Tape};

impl Tape {
    /// The buffers that the host writes before a run.
    pub(super) fn image_buffers(&self) -> impl Iterator<Item = Buffer> {
        self.ops.iter().filter_map(|op| match op {
            Op::Images(op) => Some(op.rows()),
            _ => None,
        })
    }

    /// Checks that only a prompt has images, that they replace embeddings, and that no operation overwrites them.
    pub(super) fn check_images(&self) -> Result<(), String> {
        let placed = |op: &Op| matches!(op, Op::Images(ImageRows::Place { .. }));
        let joins = |op: &Op| match op {
            Op::Images(_) => true,
            Op::Attend { attention, .. } => attention.joins_images,
            Op::RopeStore { rotation, .. } => rotation.sections.is_some(),
            _ => false,
        };
        if !self.ops.iter().any(joins) {
            return Ok(());
        }
        if self.input != Input::Prompt {
            return Err("only a prompt has images".into());
        }
        let embeds = |op: &Op| matches!(op, Op::Embed { .. });
        let pairs = self.ops.windows(2);
        let follow = pairs.filter(|pair| embeds(&pair[0]) && placed(&pair[1]));
        let follow = follow.count();
        let count = |is: &dyn Fn(&Op) -> bool| self.ops.iter().filter(|op| is(op)).count();
        if follow == 0 || [count(&embeds), count(&placed)] != [follow; 2] {
            return Err("images must be placed once after all embeddings of tokens".into());
        }
        let mut written = self.ops.iter().flat_map(|op| op.buffers().1);
        match written.find(|buffer| self.image_buffers().any(|rows| rows == *buffer)) {
            Some(buffer) => Err(format!(
                "{} is not only written by the host",
                self.buffer(buffer).name
            )),
            None => Ok(()),
        }
    }

    pub(super) fn check_image_rows(&self, op: ImageRows) -> Result<(), String> {
        let (rows, x) = (op.rows(), op.x());
        self.residual(x)?;
        self.residual(rows)?;
        let columns = self.buffer(x).columns;
        match op {
            ImageRows::Place { .. } => self.columns_of(rows, columns),
            ImageRows::Add { first, .. } => {
                let info = self.buffer(rows);
                let fits = first + columns <= info.columns;
                fits.then_some(()).ok_or_else(|| {
                    format!("{} has no {columns} columns from {first} on", info.name)
                })
            }
        }
    }
}

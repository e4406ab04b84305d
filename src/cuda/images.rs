//! Prompts with images: their embeddings on the way to the device, and the launch that adds them to the residual stream.
//!
//! Each run sends its embeddings again, also one that continues a preempted prompt, because another prompt may have used
//! the same buffers meanwhile.

use super::Cuda;
use super::narrow::narrow;
use super::queue::LaunchQueue;
use super::scratch::SHOWN_BYTES;
use super::work::{THREADS, Work};
use crate::device::{Error, Geometry, Masks, RowSpans, ShowArgs};
use crate::executor::{ExecuteError, ImageError, ImagePrompt, ImageSpan};
use crate::sampler::Mask;
use crate::tape::{ImageRows, Op, Tape};

/// Words of a row of a prompt with images.
const SHOWN_WORDS: usize = SHOWN_BYTES / 4;

impl Cuda {
    /// Sends the embeddings of a prompt's images, and how its rows rotate and see each other, behind earlier work.
    ///
    /// # Errors
    /// If the images do not fit the tape, or the device has failed.
    pub(super) fn send_images(
        &mut self,
        tape: &Tape,
        prompt: &ImagePrompt<'_>,
    ) -> Result<(), ExecuteError> {
        let shown = self.shown(tape, prompt)?;
        let scratch = &mut self.scratch;
        let to = (&mut scratch.arena, scratch.shown);
        let put = |row: usize, bytes: &mut [u8]| {
            let words = bytes.as_chunks_mut::<4>().0.iter_mut();
            words
                .zip(shown[row])
                .for_each(|(bytes, word)| *bytes = word.to_le_bytes());
        };
        let rows = spans(SHOWN_BYTES, SHOWN_BYTES, shown.len());
        (scratch.upload).rows(to, (0, rows), put, &mut self.stream)?;
        // The further embeddings have the order of their layers.
        let mut stacks = 0;
        for op in &tape.ops {
            let Op::Images(op) = *op else { continue };
            let (stack, first) = match op {
                ImageRows::Place { .. } => (None, 0),
                ImageRows::Add { first, .. } => (Some(stacks), first),
            };
            stacks += usize::from(stack.is_some());
            for image in prompt.images {
                let values = stack.map_or(image.values, |stack| image.deepstack[stack]);
                self.send_rows(tape, op, (image, values), first)?;
            }
        }
        Ok(())
    }

    /// Sends the rows of an image into the columns of an operation's buffer from `first` on.
    fn send_rows(
        &mut self,
        tape: &Tape,
        op: ImageRows,
        (image, values): (&ImageSpan<'_>, &[f32]),
        first: usize,
    ) -> Result<(), Error> {
        let (wide, columns) = (tape.buffer(op.rows()).columns, tape.buffer(op.x()).columns);
        let Some((arena, region, _)) = self.buffers.held.get_mut(op.rows().0) else {
            return Ok(());
        };
        let put = |row: usize, bytes: &mut [u8]| {
            let values = &values[row * columns..][..columns];
            for (bytes, value) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(values) {
                *bytes = value.to_le_bytes();
            }
        };
        let rows = spans(4 * wide, 4 * columns, image.rows);
        let at = 4 * (image.first * wide + first);
        let upload = &mut self.scratch.upload;
        upload.rows((arena, *region), (at, rows), put, &mut self.stream)
    }

    /// Returns what the device knows of each row, after the check that the images fit the tape.
    fn shown(
        &self,
        tape: &Tape,
        prompt: &ImagePrompt<'_>,
    ) -> Result<Vec<[u32; SHOWN_WORDS]>, ImageError> {
        let spans = prompt.spans(tape)?;
        let context = self.kv.context;
        let beyond = |turned: &[u32; 3]| turned.iter().find(|at| **at as usize >= context).copied();
        let mut positions = prompt.positions.iter().enumerate();
        if let Some((row, position)) = positions.find_map(|(row, at)| Some((row, beyond(at)?))) {
            return Err(ImageError::Position {
                row,
                position,
                context,
            });
        }
        let mut shown = vec![[0; SHOWN_WORDS]; prompt.tokens.len()];
        for (shown, [time, row, column]) in shown.iter_mut().zip(prompt.positions) {
            *shown = [*time, *row, *column, 0];
        }
        let position = self.conversations[self.slot].state.position;
        for span in spans {
            let end = narrow(position + span.end);
            shown[span]
                .iter_mut()
                .for_each(|[.., length]| *length = end);
        }
        Ok(shown)
    }

    /// Sets the distance from a slot's positions in the cache to those that its next rows rotate by.
    ///
    /// # Errors
    /// If a row would rotate by a position that has no angles.
    pub(super) fn turn_by(&mut self, slot: usize, offset: isize) -> Result<(), ImageError> {
        let position = self.conversations[slot].state.position;
        // Images take at least as many rows as positions. A slot never goes back without `begin`, which sets 0.
        let has_angles = offset <= 0 && offset.unsigned_abs() <= position;
        let narrowed = i32::try_from(offset).ok().filter(|_| has_angles);
        let Some(narrowed) = narrowed else {
            return Err(ImageError::Offset { position, offset });
        };
        if self.conversations[slot].set_rotary_offset(narrowed) {
            self.discard_in_flight_of(slot);
        }
        Ok(())
    }

    /// Sends the mask of conversations without a guide.
    pub(super) fn send_allowed(&mut self, mask: &Mask) -> Result<(), Error> {
        let scratch = &mut self.scratch;
        // Missing bits are not allowed tokens.
        let mut bytes = vec![0; scratch.allowed.bytes()];
        let bits = bytes.as_chunks_mut::<4>().0.iter_mut().skip(Masks::HEAD);
        for (bytes, word) in bits.zip(mask.words()) {
            *bytes = word.to_le_bytes();
        }
        (scratch.arena).write(scratch.allowed, &bytes, &mut self.stream)?;
        let address = scratch.arena.address(scratch.allowed)?;
        if scratch.addresses.allowed != address {
            scratch.addresses.allowed = address;
            // Recordings have no address for it.
            self.base.moves += 1;
        }
        Ok(())
    }
}

impl Work<'_> {
    /// Launches an operation on the rows of images.
    pub(super) fn show(
        &self,
        tape: &Tape,
        op: ImageRows,
        queue: &mut LaunchQueue<'_>,
    ) -> Result<(), Error> {
        let columns = |buffer| narrow(tape.buffer(buffer).columns);
        let (first, adds) = match op {
            ImageRows::Place { .. } => (0, false),
            ImageRows::Add { first, .. } => (first, true),
        };
        let args = ShowArgs {
            values: self.buffer(op.rows()) + 4 * first as u64,
            x: self.buffer(op.x()),
            shown: self.addresses.shown,
            count: self.count_of(tape),
            stamp: queue.stamp(),
            hidden: columns(op.x()),
            stride: columns(op.rows()),
            adds: adds.into(),
            pad: 0,
        };
        let geometry = Geometry {
            grid: [narrow(tape.rows), args.hidden.div_ceil(THREADS), 1],
            ..Geometry::new(1, THREADS)
        };
        queue.launch(&self.kernels.show, geometry, &args)
    }
}

const fn spans(pitch: usize, bytes: usize, count: usize) -> RowSpans {
    RowSpans {
        pitch,
        bytes,
        count,
    }
}

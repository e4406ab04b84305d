//! Prompts of which some rows are embeddings of images: their positions, their slices, and the tapes that run them.
//!
//! It encodes no images. The cache shares no page with rows of images, because it knows tokens only.

use std::ops::Range;

use super::error::RunError;
use super::tower::Embeddings;
use super::{PROMPTS, Runner, SCORED_ROWS, logits_observer};
use crate::executor::{ImageError, ImagePrompt, ImageSpan, Pass, PreemptPrompt};
use crate::kv::{FIRST_IMAGE_ROW, Owner, Wanted};
use crate::sampler::Parameters;
use crate::tape::Ending;

/// A row of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptInput {
    Token(u32),
    /// A row of the embeddings of an image. All rows of an image follow each other, from the first one on.
    Image {
        /// The index in the prompt's images.
        image: usize,
        row: usize,
    },
}

/// An image of a prompt.
#[derive(Clone, Copy, Debug)]
pub struct PromptImage<'a> {
    pub embeddings: &'a Embeddings,
    /// Rows and columns of its tokens. Only models with positions of three parts use them.
    pub grid: [usize; 2],
}

/// A prompt with images.
#[derive(Clone, Copy, Debug)]
pub struct MixedPrompt<'a> {
    pub inputs: &'a [PromptInput],
    pub images: &'a [PromptImage<'a>],
}

/// The positions that the rows of a prompt rotate by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RotaryPositions {
    /// Time, row and column of each row.
    pub rows: Vec<[u32; 3]>,
    /// The distance from a later row's position in the cache to the position that it rotates by.
    pub offset: isize,
}

impl<'a> MixedPrompt<'a> {
    /// Returns the inputs of a text in which a placeholder stands for each row of an image, in order.
    #[must_use]
    pub fn inputs(
        tokens: &[u32],
        is_image: impl Fn(usize) -> bool,
        images: &[PromptImage<'_>],
    ) -> Vec<PromptInput> {
        let lengths = images.iter().map(|image| image.embeddings.tokens);
        let of_image = |(image, rows): (usize, usize)| (0..rows).map(move |row| (image, row));
        let mut rows = lengths.enumerate().flat_map(of_image);
        let input = |(at, token): (usize, &u32)| {
            let row = is_image(at).then(|| rows.next()).flatten();
            row.map_or(PromptInput::Token(*token), |(image, row)| {
                PromptInput::Image { image, row }
            })
        };
        tokens.iter().enumerate().map(input).collect()
    }

    /// Returns the positions of a prompt whose first row is at `first` of the cache and rotates by `offset` more
    /// (M-RoPE: Wang et al. 2024). Text counts on after an image by the longer side of its grid.
    ///
    /// # Errors
    /// If rows of an image are missing, or do not follow each other.
    pub fn positions(&self, first: usize, offset: isize) -> Result<RotaryPositions, RunError> {
        self.check()?;
        let start = first.saturating_add_signed(offset);
        let mut next = start;
        let narrow = |position: usize| u32::try_from(position).unwrap_or(u32::MAX);
        let rows = self.inputs.iter().map(|input| match *input {
            PromptInput::Token(_) => {
                next += 1;
                [narrow(next - 1); 3]
            }
            PromptInput::Image { image, row } => {
                let PromptImage {
                    embeddings,
                    grid: [rows, columns],
                } = self.images[image];
                let columns = columns.max(1);
                let position = [next, next + row / columns, next + row % columns];
                if row + 1 == embeddings.tokens {
                    next += rows.max(columns);
                }
                position.map(narrow)
            }
        });
        let rows: Vec<_> = rows.collect();
        Ok(RotaryPositions {
            offset: offset + next.cast_signed() - (start + rows.len()).cast_signed(),
            rows,
        })
    }

    fn check(&self) -> Result<(), RunError> {
        let mut expected = None;
        for (at, input) in self.inputs.iter().enumerate() {
            let found = match *input {
                PromptInput::Token(_) => None,
                PromptInput::Image { image, row } => Some((image, row)),
            };
            let starts = found.is_none_or(|(_, row)| row == 0);
            if expected.map_or(!starts, |expected| found != Some(expected)) {
                return Err(RunError::ImageRow { at });
            }
            expected = match found {
                None => None,
                Some((image, row)) => {
                    let image_of = self.images.get(image);
                    let rows = image_of.ok_or(RunError::ImageRow { at })?.embeddings.tokens;
                    (row + 1 < rows).then_some((image, row + 1))
                }
            };
        }
        match expected {
            Some(_) => Err(RunError::ImageRow {
                at: self.inputs.len(),
            }),
            None => Ok(()),
        }
    }

    /// Returns the images of some rows, each with the rows of the prompt and those of the image.
    fn spans(&self, rows: &[PromptInput]) -> Vec<Span<'a>> {
        let mut spans: Vec<Span<'a>> = Vec::new();
        for (at, input) in rows.iter().enumerate() {
            let PromptInput::Image { image, row } = *input else {
                continue;
            };
            let embeddings = self.images[image].embeddings;
            let of = match spans.last_mut() {
                Some(last) if last.first + last.count == at && row > 0 => {
                    last.count += 1;
                    continue;
                }
                _ => Span {
                    first: at,
                    count: 1,
                    row,
                    embeddings,
                    deepstack: Vec::new(),
                },
            };
            spans.push(of);
        }
        for span in &mut spans {
            let values = span.embeddings.deepstack.iter();
            span.deepstack = values.map(|values| span.rows_of(values)).collect();
        }
        spans
    }
}

/// Rows of an image in a slice of a prompt.
struct Span<'a> {
    first: usize,
    count: usize,
    /// The row of the image that is the first.
    row: usize,
    embeddings: &'a Embeddings,
    deepstack: Vec<&'a [f32]>,
}

impl<'a> Span<'a> {
    /// Returns these rows of all that an image has.
    fn rows_of(&self, values: &'a [f32]) -> &'a [f32] {
        let width = self.embeddings.width;
        let rows = self.row * width..(self.row + self.count) * width;
        // An image of another length is refused by the executor.
        values.get(rows).unwrap_or_default()
    }

    fn span(&self) -> ImageSpan<'_> {
        ImageSpan {
            first: self.first,
            rows: self.count,
            values: self.rows_of(&self.embeddings.values),
            deepstack: &self.deepstack,
            is_whole: self.row == 0 && self.count == self.embeddings.tokens,
        }
    }
}

impl Runner {
    /// Starts a prompt with images as `begin` does, runs it in slices, and chooses the next token. Steps continue it.
    ///
    /// # Errors
    /// As `begin` and `prefill`; images that do not fit the model, or whose rows see each other and exceed a slice.
    pub fn prompt(
        &mut self,
        owner: Option<Owner>,
        user: u32,
        prompt: MixedPrompt<'_>,
        parameters: Parameters,
    ) -> Result<(), RunError> {
        let (ids, positions) = self.plan(prompt)?;
        let wanted = Wanted::without_answers(&ids);
        // No row of an image is shared, so that cached rows are text.
        let mut at = self.begin_with(owner, user, wanted, parameters, self.context())?;
        while at < ids.len() {
            let rows = self.slice_length(prompt, at, self.prefill_chunk)?;
            let ending = if at + rows == ids.len() {
                Ending::Token
            } else {
                Ending::Kv
            };
            let slice = at..at + rows;
            let all = (prompt, &positions, &ids[..]);
            self.run_slice(all, slice, ending, None)?;
            at += rows;
        }
        Ok(())
    }

    /// Runs a prompt with images in an empty slot, and calls `each` with the logits of every row in order.
    ///
    /// # Errors
    /// As `prompt`.
    pub fn prompt_logits(
        &mut self,
        prompt: MixedPrompt<'_>,
        mut each: impl FnMut(&[f32]),
    ) -> Result<(), RunError> {
        let (ids, positions) = self.plan(prompt)?;
        self.begin(None, 0, &[], Parameters::default())?;
        let longest = prompt.images.iter().map(|image| image.embeddings.tokens);
        let most = longest.fold(SCORED_ROWS, usize::max);
        let mut at = 0;
        while at < ids.len() {
            let rows = self.slice_length(prompt, at, most.min(self.prefill_chunk))?;
            let slice = at..at + rows;
            let has_images = has_images(&prompt.inputs[slice.clone()]);
            self.run_slice((prompt, &positions, &ids), slice, Ending::Logits, None)?;
            let tapes = if has_images {
                &self.images.prompts
            } else {
                &self.prompts
            };
            let tape = &tapes[&(rows, Ending::Logits)];
            (0..rows).for_each(|row| each(self.executor.logits(tape, row)));
            at += rows;
        }
        Ok(())
    }

    /// Returns what stands for each row in the cache, and the positions of all rows. Each row of an image has a number of its
    /// own, so that no other prompt shares its page.
    fn plan(&mut self, prompt: MixedPrompt<'_>) -> Result<(Vec<u32>, RotaryPositions), RunError> {
        let positions = prompt.positions(0, 0)?;
        if self.forward.shape.images.sections.is_some() {
            for PromptImage {
                embeddings,
                grid: [rows, columns],
            } in prompt.images
            {
                let tokens = embeddings.tokens;
                if rows * columns != tokens {
                    return Err(RunError::ImageGrid {
                        rows: *rows,
                        columns: *columns,
                        tokens,
                    });
                }
            }
        }
        let ids = prompt.inputs.iter().map(|input| match *input {
            PromptInput::Token(token) => token,
            PromptInput::Image { .. } => {
                self.images.rows = self.images.rows.wrapping_add(1) | FIRST_IMAGE_ROW;
                self.images.rows
            }
        });
        Ok((ids.collect(), positions))
    }

    /// Returns the rows of the next slice of a prompt: at most `most`. It cuts no image whose rows see each other.
    fn slice_length(
        &self,
        prompt: MixedPrompt<'_>,
        at: usize,
        most: usize,
    ) -> Result<usize, RunError> {
        let left = prompt.inputs.len() - at;
        let rows = self.run_length(self.slot(), left, most);
        let images = self.forward.shape.images;
        let next = prompt.inputs.get(at + rows);
        if let (true, Some(PromptInput::Image { row, .. })) = (images.is_joined(), next) {
            return match rows.checked_sub(*row) {
                Some(before) if before > 0 => Ok(before),
                _ => Err(ImageError::Cut { row: at }.into()),
            };
        }
        Ok(rows)
    }

    /// Runs a slice of a prompt. `all` are its rows, their positions, and what stands for them in the cache.
    fn run_slice(
        &mut self,
        (prompt, positions, ids): (MixedPrompt<'_>, &RotaryPositions, &[u32]),
        slice: Range<usize>,
        ending: Ending,
        preempts: PreemptPrompt<'_>,
    ) -> Result<Pass, RunError> {
        let (slot, shape) = (self.slot(), &self.forward.shape);
        let has_parts = shape.images.sections.is_some();
        let (inputs, ids) = (&prompt.inputs[slice.clone()], &ids[slice.clone()]);
        let pass = if has_images(inputs) {
            if !self.executor.takes_images() {
                return Err(ImageError::Unsupported.into());
            }
            let token = shape.images.token;
            let tokens = inputs.iter().map(|input| match *input {
                PromptInput::Token(token) => token,
                PromptInput::Image { .. } => token,
            });
            let tokens: Vec<u32> = tokens.collect();
            let spans = prompt.spans(inputs);
            let spans: Vec<_> = spans.iter().map(Span::span).collect();
            let turned = if has_parts {
                &positions.rows[slice.clone()]
            } else {
                &[]
            };
            let rows = ImagePrompt {
                tokens: &tokens,
                images: &spans,
                positions: turned,
            };
            self.run_images(&rows, ids, ending, preempts)?
        } else {
            // Text rotates by one number, the same distance from its place in the cache in all of the slice.
            let first = positions.rows[slice.start][0] as usize;
            let offset = first.cast_signed() - slice.start.cast_signed();
            self.set_rotary_offset(slot, if has_parts { offset } else { 0 })?;
            self.prefill_until(ids, ending, preempts)?
        };
        if pass == Pass::Ended && slice.end == positions.rows.len() && has_parts {
            self.set_rotary_offset(slot, positions.offset)?;
        }
        Ok(pass)
    }

    /// Runs rows of which some are embeddings of images, as `prefill_until` does with tokens.
    fn run_images(
        &mut self,
        rows: &ImagePrompt<'_>,
        ids: &[u32],
        ending: Ending,
        preempts: PreemptPrompt<'_>,
    ) -> Result<Pass, RunError> {
        self.check_slots(&[self.kv.active()])?;
        let key = (rows.tokens.len(), ending);
        if !self.images.prompts.contains_key(&key) {
            let tape = self.forward.image_tape(key.0, ending);
            tape.check()?;
            self.executor.prepare(&tape)?;
            if self.images.prompts.len() >= PROMPTS {
                self.images.prompts.clear();
            }
            self.images.prompts.insert(key, tape);
        }
        let tape = &self.images.prompts[&key];
        let ran = self.executor.run_images(tape, rows, preempts);
        if !self.executor.is_step_preempted() {
            self.stepped(&[]);
        }
        let pass = ran?;
        if pass == Pass::Ended {
            self.kv.extend(ids);
            self.store_due_state()?;
            if ending == Ending::Token {
                let tape = &self.images.prompts[&key];
                let observer = self.observer.as_ref();
                logits_observer::show(observer, &mut *self.executor, tape, [0])?;
            }
        }
        Ok(pass)
    }

    /// Sets the distance from a slot's positions in the cache to those that its next rows rotate by.
    fn set_rotary_offset(&mut self, slot: usize, offset: isize) -> Result<(), RunError> {
        self.executor.set_rotary_offset(slot, offset)?;
        self.images
            .offsets
            .resize(self.images.offsets.len().max(slot + 1), 0);
        self.images.offsets[slot] = offset;
        Ok(())
    }

    /// Starts a request in the executor after a part of its prompt, whose later rows rotate as before.
    pub(super) fn begin_again(
        &mut self,
        place: (usize, usize),
        parameters: Parameters,
        prompt: &[u32],
    ) -> Result<(), RunError> {
        let offset = self.images.offsets.get(place.0).copied().unwrap_or(0);
        self.begin_slot(place, parameters, prompt)?;
        self.set_rotary_offset(place.0, offset)
    }

    /// Starts a request in the executor. Its sampler does not know rows of images.
    pub(super) fn begin_slot(
        &mut self,
        place: (usize, usize),
        parameters: Parameters,
        prompt: &[u32],
    ) -> Result<(), RunError> {
        if let Some(offset) = self.images.offsets.get_mut(place.0) {
            *offset = 0;
        }
        if prompt.iter().all(|id| *id < FIRST_IMAGE_ROW) {
            return Ok(self.executor.begin(place, parameters, prompt)?);
        }
        let tokens = prompt.iter().copied().filter(|id| *id < FIRST_IMAGE_ROW);
        let tokens: Vec<u32> = tokens.collect();
        Ok(self.executor.begin(place, parameters, &tokens)?)
    }
}

fn has_images(inputs: &[PromptInput]) -> bool {
    let is_image = |input: &PromptInput| matches!(input, PromptInput::Image { .. });
    inputs.iter().any(is_image)
}

//! Prompts of which some rows are embeddings of images: their positions, their slices, and the tapes that run them.
//!
//! It encodes no images. In a prompt, a number from `kv::FIRST_IMAGE_ROW` on stands for a row of an image.

use std::ops::Range;

use super::error::RunError;
use super::image_places::{ImagePlaces, ImageTile};
use super::mixed_prompt::{MixedPrompt, NumberedPrompt};
use super::tower::Embeddings;
use super::{PROMPTS, Runner, SCORED_ROWS, logits_observer};
use crate::executor::{ImageError, ImagePrompt, ImageSpan, Pass, PreemptPrompt};
use crate::kv::{FIRST_IMAGE_ROW, Owner, Wanted};
use crate::sampler::Parameters;
use crate::tape::Ending;

/// What the numbers of a tile stand for.
#[derive(Clone, Debug)]
pub struct TileEmbeddings<'a> {
    pub rows: Range<u32>,
    pub embeddings: &'a Embeddings,
}

/// Rows of a tile in a slice of a prompt.
struct Span<'a> {
    /// The first row of the slice.
    first: usize,
    count: usize,
    /// The row of the tile that is the first.
    row: usize,
    embeddings: &'a Embeddings,
    deepstack: Vec<&'a [f32]>,
}

impl<'a> Span<'a> {
    /// Returns these rows of all that a tile has.
    fn rows_of(&self, values: &'a [f32]) -> &'a [f32] {
        let width = self.embeddings.width;
        let rows = self.row * width..(self.row + self.count) * width;
        // A tile of another length is refused by the executor.
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

/// Returns the tiles that a slice shows. The first row of the slice is at `begin` of its prompt.
fn spans<'a>(
    slice: &[u32],
    images: &[TileEmbeddings<'a>],
    begin: usize,
) -> Result<Vec<Span<'a>>, RunError> {
    let mut spans = Vec::new();
    let mut at = 0;
    while at < slice.len() {
        let number = slice[at];
        if number < FIRST_IMAGE_ROW {
            at += 1;
            continue;
        }
        let tile = images.iter().find(|tile| tile.rows.contains(&number));
        let tile = tile.ok_or(RunError::ImageRow { at: begin + at })?;
        let rows = (number..tile.rows.end).zip(&slice[at..]);
        let count = rows.take_while(|(row, found)| row == *found).count();
        let mut span = Span {
            first: at,
            count,
            row: (number - tile.rows.start) as usize,
            embeddings: tile.embeddings,
            deepstack: Vec::new(),
        };
        let deepstack = tile.embeddings.deepstack.iter();
        span.deepstack = deepstack.map(|values| span.rows_of(values)).collect();
        spans.push(span);
        at += count;
    }
    Ok(spans)
}

/// Whether a slice of a prompt has rows of images.
fn has_images(slice: &[u32]) -> bool {
    slice.iter().any(|number| *number >= FIRST_IMAGE_ROW)
}

impl Runner {
    /// Whether prompts can have images.
    #[must_use]
    pub fn takes_images(&self) -> bool {
        self.executor.takes_images()
    }

    /// Allocates the memory of the longest run with images, so that no prompt allocates any.
    ///
    /// # Errors
    /// If images are not part of the model's tape, or there is not enough memory.
    pub fn reserve_images(&mut self) -> Result<(), RunError> {
        self.image_tape((self.prefill_chunk, Ending::Token))
    }

    /// Notes which images the prompt of a slot shows, right after `join` or `begin`. Without it, no prompt has images.
    ///
    /// # Errors
    /// If rows of an image are missing, or its grid has another number of tokens.
    pub fn place_images(
        &mut self,
        slot: usize,
        prompt: &[u32],
        tiles: &[ImageTile],
    ) -> Result<(), RunError> {
        let places = ImagePlaces::find(prompt, tiles)?;
        if self.rotates_by_parts() {
            for ImageTile { rows, grid } in tiles {
                let (tokens, [rows, columns]) = (rows.len(), *grid);
                if rows * columns != tokens {
                    return Err(RunError::ImageGrid {
                        rows,
                        columns,
                        tokens,
                    });
                }
            }
        }
        self.images.set_places(slot, places);
        self.settle_rotation(slot)
    }

    /// Whether positions have three parts.
    fn rotates_by_parts(&self) -> bool {
        self.forward.shape.images.sections.is_some()
    }

    /// Sets what the next rows of text in a slot rotate by.
    pub(super) fn settle_rotation(&mut self, slot: usize) -> Result<(), RunError> {
        if !self.rotates_by_parts() {
            return Ok(());
        }
        let offset = self.images.places(slot).offset_at(self.kv.len_of(slot));
        if offset != self.images.offset(slot) {
            self.executor.set_rotary_offset(slot, offset)?;
            self.images.set_offset(slot, offset);
        }
        Ok(())
    }

    /// Returns the rows of the next run of a slot's prompt: about `most` of the `left` tokens before the next token that was
    /// generated. Runs of recurrent layers end where their state can be stored. An image whose rows see each other is not cut,
    /// so a run that begins with one can be longer than `most`.
    #[must_use]
    pub fn run_length(&self, slot: usize, left: usize, most: usize) -> usize {
        let rows = self.kv.run_length(slot, left, most);
        if !self.forward.shape.images.is_joined() {
            return rows;
        }
        let begin = self.kv.len_of(slot);
        let end = self.images.places(slot).whole(begin, begin + rows);
        (end - begin).min(left)
    }

    /// Runs tokens and rows of images in the current slot, as `prefill_until` does with tokens. `images` has all tiles whose
    /// numbers are among `slice`.
    ///
    /// # Errors
    /// As `prefill_until`; images that do not fit the model, or whose rows see each other and exceed a run.
    pub fn prefill_images(
        &mut self,
        slice: &[u32],
        images: &[TileEmbeddings<'_>],
        ending: Ending,
        preempts: PreemptPrompt<'_>,
    ) -> Result<Pass, RunError> {
        if !has_images(slice) {
            return self.prefill_until(slice, ending, preempts);
        }
        if !self.executor.takes_images() {
            return Err(ImageError::Unsupported.into());
        }
        let slot = self.slot();
        self.seat(&[slot])?;
        let begin = self.kv.len();
        if slice.len() > self.prefill_chunk {
            return Err(ImageError::Cut { row: begin }.into());
        }
        let token = self.forward.shape.images.token;
        let tokens = slice.iter().map(|number| match *number {
            FIRST_IMAGE_ROW.. => token,
            number => number,
        });
        let tokens: Vec<u32> = tokens.collect();
        let spans = spans(slice, images, begin)?;
        let spans: Vec<_> = spans.iter().map(Span::span).collect();
        let positions = if self.rotates_by_parts() {
            let places = self.images.places(slot);
            places.rotations(begin..begin + slice.len())
        } else {
            Vec::new()
        };
        let rows = ImagePrompt {
            tokens: &tokens,
            images: &spans,
            positions: &positions,
        };
        let key = (slice.len(), ending);
        self.image_tape(key)?;
        let ran = self
            .executor
            .run_images(&self.images.prompts[&key], &rows, preempts);
        // Tokens of steps ahead are dropped, unless the step is preempted.
        if !self.executor.is_step_preempted() {
            self.stepped(&[]);
        }
        let pass = ran?;
        if pass == Pass::Ended {
            self.kv.extend(slice);
            self.settle_rotation(slot)?;
            self.store_due_state()?;
            if ending == Ending::Token {
                let tape = &self.images.prompts[&key];
                let observer = self.observer.as_ref();
                logits_observer::show(observer, &mut *self.executor, tape, [0])?;
            }
        }
        Ok(pass)
    }

    fn image_tape(&mut self, key: (usize, Ending)) -> Result<(), RunError> {
        if !self.images.prompts.contains_key(&key) {
            let tape = self.forward.image_tape(key.0, key.1);
            tape.check()?;
            self.executor.prepare(&tape)?;
            if self.images.prompts.len() >= PROMPTS {
                self.images.prompts.clear();
            }
            self.images.prompts.insert(key, tape);
        }
        Ok(())
    }

    /// Starts a prompt with images as `begin` does, runs it in slices, and chooses the next token. Steps continue it.
    ///
    /// # Errors
    /// As `begin`, `place_images` and `prefill_images`.
    pub fn prompt(
        &mut self,
        owner: Option<Owner>,
        user: u32,
        prompt: MixedPrompt<'_>,
        parameters: Parameters,
    ) -> Result<(), RunError> {
        let numbered = self.numbered(prompt)?;
        // No other prompt has the numbers of its images, so that cached rows are text.
        let wanted = Wanted::without_answers(&numbered.numbers);
        let at = self.begin_with(owner, user, wanted, parameters, self.context())?;
        let ending = |last| if last { Ending::Token } else { Ending::Kv };
        let slices = (at, self.prefill_chunk);
        self.run_slices((prompt, &numbered), slices, ending, |_, _| ())
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
        let numbered = self.numbered(prompt)?;
        self.begin(None, 0, &[], Parameters::default())?;
        let longest = prompt.images.iter().map(|image| image.embeddings.tokens);
        let most = longest.fold(SCORED_ROWS, usize::max);
        let slices = (0, most.min(self.prefill_chunk));
        let ending = |_| Ending::Logits;
        self.run_slices((prompt, &numbered), slices, ending, |runner, slice| {
            let tapes = if has_images(slice) {
                &runner.images.prompts
            } else {
                &runner.prompts
            };
            let tape = &tapes[&(slice.len(), Ending::Logits)];
            (0..slice.len()).for_each(|row| each(runner.executor.logits(tape, row)));
        })
    }

    /// Runs a prompt in the current slot from `at` on, about `most` rows at a time. `ending` says how a slice ends, given
    /// whether it is the last. Calls `ran` after each slice.
    fn run_slices(
        &mut self,
        (prompt, numbered): (MixedPrompt<'_>, &NumberedPrompt),
        (mut at, most): (usize, usize),
        ending: impl Fn(bool) -> Ending,
        mut ran: impl FnMut(&Self, &[u32]),
    ) -> Result<(), RunError> {
        let NumberedPrompt { numbers, tiles } = numbered;
        self.place_images(self.slot(), numbers, tiles)?;
        let images = tiles.iter().zip(prompt.images);
        let images = images.map(|(tile, image)| TileEmbeddings {
            rows: tile.rows.clone(),
            embeddings: image.embeddings,
        });
        let images: Vec<_> = images.collect();
        while at < numbers.len() {
            let rows = self.run_length(self.slot(), numbers.len() - at, most);
            let slice = &numbers[at..at + rows];
            at += rows;
            self.prefill_images(slice, &images, ending(at == numbers.len()), None)?;
            ran(self, slice);
        }
        Ok(())
    }

    /// Returns a prompt whose images have numbers that no other prompt has.
    fn numbered(&mut self, prompt: MixedPrompt<'_>) -> Result<NumberedPrompt, RunError> {
        let first = self.images.next | FIRST_IMAGE_ROW;
        let numbered = prompt.numbered(first)?;
        ImagePlaces::find(&numbered.numbers, &numbered.tiles)?;
        let end = numbered.tiles.last().map_or(first, |tile| tile.rows.end);
        self.images.next = end;
        Ok(numbered)
    }

    /// Starts a request in the executor. Its sampler does not know rows of images.
    pub(super) fn begin_slot(
        &mut self,
        place: (usize, usize),
        parameters: Parameters,
        prompt: &[u32],
    ) -> Result<(), RunError> {
        if has_images(prompt) {
            let tokens = prompt.iter().filter(|number| **number < FIRST_IMAGE_ROW);
            let tokens: Vec<u32> = tokens.copied().collect();
            self.executor.begin(place, parameters, &tokens)?;
        } else {
            self.executor.begin(place, parameters, prompt)?;
        }
        self.images.set_offset(place.0, 0);
        Ok(())
    }
}

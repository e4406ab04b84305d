//! The conversations as the host sees them, and the commands that bring a device up to date.

use std::ops::Range;

use super::narrow::narrow;
use crate::device::{self, Command, GUESSES, NO_SLOT, Row, STEP_ROWS, SamplerState};
use crate::executor::{Given, StepState};
use crate::sampler::{History, Parameters, Scored, WINDOW};

/// The token of a row whose logits are not finite.
pub(super) const NOT_FINITE: u32 = u32::MAX;

/// The token of a row whose mask has not arrived.
pub(super) const NOT_READY: u32 = u32::MAX - 1;

/// The positions of the rows of the next launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RowPositions {
    #[default]
    Successive,
    /// All are at the last position with keys, where an assistant guesses.
    Shared,
}

/// A conversation after the tokens that the host has taken. The device may be ahead.
#[derive(Clone, Debug, Default)]
pub(super) struct Conversation {
    pub(super) state: StepState,
    sampler: SamplerState,
    /// The number of the next mask; `None` if the conversation is not guided.
    guide: Option<u32>,
    /// The last of these numbers. They continue across conversations of the slot, because the device still holds an old mask.
    number: u32,
    /// Whether the device has another token, position or sampler.
    moved: bool,
    /// Whether the device has another mask number.
    guide_changed: bool,
    /// The elements of the page table that the device does not have yet.
    new_pages: Range<usize>,
    /// The number of its recurrent state; `None` if it has none.
    held: Option<u32>,
    /// The distance from its positions in the cache to those that its next rows rotate by.
    rotary_offset: i32,
    /// The number and the index of the mask after each guess of the next step.
    pub(super) guess_masks: Vec<(u32, usize)>,
    positions: RowPositions,
    /// Whether the last step found no mask.
    pub(super) awaits_mask: bool,
    /// For each token of the last run: that token, then the most probable ones.
    pub(super) scored: Vec<Vec<Scored>>,
}

impl Conversation {
    /// A conversation, perhaps with a recurrent state.
    pub(super) fn new(held: Option<u32>) -> Self {
        Self {
            held,
            ..Self::default()
        }
    }

    /// Replaces its recurrent state. Without one it is never launched, so the device may keep the number of an earlier one.
    pub(super) fn set_state(&mut self, held: Option<u32>) {
        self.held = held;
        self.moved();
    }

    pub(super) fn begin(&mut self, position: usize, parameters: Parameters, history: &History) {
        let (tokens, pushed) = history.ring();
        let [seed_low, seed_high] = [parameters.seed, parameters.seed >> 32].map(|half| {
            #[allow(clippy::cast_possible_truncation)] // each is half of the seed
            let half = half as u32;
            half
        });
        self.state.position = position;
        self.rotary_offset = 0;
        self.sampler = SamplerState {
            temperature: parameters.temperature,
            top_p: parameters.top_p,
            min_p: parameters.min_p,
            repetition_penalty: parameters.repetition_penalty,
            top_k: parameters.top_k,
            counter: [0; 2],
            seed: [seed_low, seed_high],
            best: parameters.logprobs.map_or(0, |most| 1 + u32::from(most)),
            pushed: narrow(pushed),
            history: device::History(*tokens),
        };
        self.guide = None;
        self.guess_masks.clear();
        self.scored.clear();
        self.moved();
    }

    /// Sets the distance from positions in the cache to those that the next rows rotate by. Returns whether it changed.
    pub(super) fn set_rotary_offset(&mut self, offset: i32) -> bool {
        let changed = self.rotary_offset != offset;
        if changed {
            self.rotary_offset = offset;
            self.moved();
        }
        changed
    }

    /// The position that a row of text rotates by.
    fn turned(&self, position: usize) -> u32 {
        narrow(position).saturating_add_signed(self.rotary_offset)
    }

    /// Puts the rows of the next launch at the last position with keys, where they rotate by the next one, or back.
    pub(super) fn assist(&mut self, on: bool) {
        let is_on = self.positions == RowPositions::Shared;
        if is_on == on || on && self.state.position == 0 {
            return;
        }
        self.positions = if on {
            RowPositions::Shared
        } else {
            RowPositions::Successive
        };
        if on {
            self.state.position -= 1;
            self.rotary_offset += 1;
        } else {
            self.state.position += 1;
            self.rotary_offset -= 1;
        }
        self.moved();
    }

    /// The position of a row, by the number of rows of its conversation before it in the same step.
    const fn position_of(&self, back: usize) -> usize {
        match self.positions {
            RowPositions::Shared => self.state.position,
            RowPositions::Successive => self.state.position + back,
        }
    }

    /// Notes that the device has another state, so that the next command contains all of it.
    pub(super) fn moved(&mut self) {
        (self.moved, self.guide_changed) = (true, true);
    }

    /// Notes that elements of the page table have changed.
    pub(super) fn pages_changed(&mut self, changed: Range<usize>) {
        if changed.is_empty() {
            return;
        }
        self.new_pages = if self.new_pages.is_empty() {
            changed
        } else {
            self.new_pages.start.min(changed.start)..self.new_pages.end.max(changed.end)
        };
    }

    /// Replaces the token that the next step starts with.
    pub(super) fn set_token(&mut self, token: u32) {
        self.state.token = token;
        if let Some(last) = self.sampler.pushed.checked_sub(1) {
            self.remember(last, token);
        }
        self.moved();
    }

    /// Adds a token that was chosen or forced.
    pub(super) fn advance(&mut self, token: u32, position: usize) {
        self.state = StepState { token, position };
        let pushed = self.sampler.pushed;
        self.remember(pushed, token);
        self.sampler.pushed = pushed.wrapping_add(1);
        let [low, high] = &mut self.sampler.counter;
        *low = low.wrapping_add(1);
        *high = high.wrapping_add(u32::from(*low == 0));
    }

    fn remember(&mut self, at: u32, token: u32) {
        let history = &mut self.sampler.history.0;
        history[at as usize % WINDOW] = token;
    }

    /// Whether the next token needs a mask.
    pub(super) fn is_guided(&self) -> bool {
        self.guide.is_some()
    }

    /// Sets whether the next token needs a mask. Returns the number of that mask.
    pub(super) fn guide(&mut self, bound: bool) -> Option<u32> {
        if self.is_guided() != bound {
            self.guide_changed = true;
            self.guide = bound.then(|| self.next_number());
        }
        self.guide
    }

    /// Notes that a mask has been used, so that the next one has another number.
    pub(super) fn masked(&mut self) {
        if self.is_guided() {
            self.guide = Some(self.next_number());
        }
    }

    /// Has launches choose without a mask until `resume_guide` gets the number that this returns.
    pub(super) fn suspend_guide(&mut self) -> Option<u32> {
        let number = self.guide.take();
        self.guide_changed |= number.is_some();
        number
    }

    /// Has launches need the mask again that they needed before `suspend_guide`.
    pub(super) fn resume_guide(&mut self, number: Option<u32>) {
        if number.is_some() {
            (self.guide, self.guide_changed) = (number, true);
        }
    }

    fn next_number(&mut self) -> u32 {
        self.number = self.number.checked_add(1).unwrap_or(1);
        self.number
    }

    /// Whether the sampler reports probabilities of tokens.
    pub(super) fn is_scored(&self) -> bool {
        self.sampler.best > 0
    }

    /// Moves all changes into a command. Returns false if there are none.
    fn take_changes(&mut self, command: &mut Command) -> bool {
        let (moved, guide_changed) = (
            std::mem::take(&mut self.moved),
            std::mem::take(&mut self.guide_changed),
        );
        command.moves = moved;
        command.sampler = moved.then_some(self.sampler);
        command.state = self.held.filter(|_| moved);
        command.offset = moved.then_some(self.rotary_offset);
        command.guide = guide_changed.then(|| self.guide.unwrap_or_default());
        let pages = std::mem::take(&mut self.new_pages);
        command.pages = (narrow(pages.start), narrow(pages.len()));
        moved || guide_changed || !pages.is_empty()
    }

    /// Returns the command of a prompt that starts at the current position and writes a spare recurrent state; its token will
    /// have the number `sequence`.
    pub(super) fn prompt(
        &mut self,
        slot: usize,
        (rows, spare): (usize, u32),
        sequence: u32,
    ) -> Command {
        let mut command = Command {
            row: Row {
                slot: narrow(slot),
                position: narrow(self.state.position),
                turned: self.turned(self.state.position),
                advances: 1,
                sequence,
                count: narrow(rows),
                spare,
                ..Row::default()
            },
            ..Command::default()
        };
        self.take_changes(&mut command);
        // The row of a prompt contains the position.
        command.moves = false;
        command
    }

    /// Advances by the rows of a prompt that chose no token.
    pub(super) fn prefilled(&mut self, rows: usize) {
        self.state.position += rows;
        self.moved();
    }
}

/// The slot of each row on the device, after all launched work.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Listed([Option<Named>; STEP_ROWS]);

/// A slot, its first row, and `Row::advances` of this row.
type Named = (u32, u32, u32);

impl Listed {
    pub(super) fn clear(&mut self) {
        self.0 = [None; STEP_ROWS];
    }

    /// Posts the commands by which the rows of step `sequence` become those of `slots`. Further rows up to `rows` are padding.
    /// If a slot has several rows, all but the first start with `given` tokens: forced ones, then guesses.
    pub(super) fn commands(
        &mut self,
        (slots, given, rows): (&[usize], &[Given], usize),
        sequence: u32,
        conversations: &mut [Conversation],
        mut post: impl FnMut(usize, &Command),
    ) {
        let mut given = given.iter().copied();
        // The guesses of a slot before the row.
        let mut guess = 0;
        for row in 0..rows.min(STEP_ROWS) {
            let at = slots.get(row).copied();
            let slot = at.map_or(NO_SLOT, narrow);
            let first = slots.iter().position(|other| Some(*other) == at);
            let first = first.unwrap_or(row);
            let again = slots.iter().skip(row + 1).any(|other| Some(*other) == at);
            let own = if first < row { given.next() } else { None };
            let next = if again { given.clone().next() } else { None };
            let guesses = [own, next].iter().flatten().any(|one| one.is_guess());
            let advances = if guesses { GUESSES } else { u32::from(!again) };
            let wanted = (slot, narrow(first), advances);
            let named = self.0[row].replace(wanted) == Some(wanted);
            let mut command = Command {
                row: Row {
                    slot,
                    first: wanted.1,
                    advances: wanted.2,
                    sequence,
                    ..Row::default()
                },
                ..Command::default()
            };
            if let Some(conversation) = at.and_then(|at| conversations.get_mut(at)) {
                if first < row {
                    command.row.token = own.map(Given::token).unwrap_or_default();
                    let position = conversation.position_of(row - first);
                    command.row.position = narrow(position);
                    command.row.turned = conversation.turned(position);
                    let mask = match own {
                        Some(Given::Guessed(_)) => conversation.guess_masks.get(guess).copied(),
                        _ => conversation.guide.zip(at),
                    };
                    guess += usize::from(own.is_some_and(Given::is_guess));
                    let (number, index) = mask.unwrap_or_default();
                    (command.row.mask, command.row.mask_at) = (number, narrow(index));
                    post(row, &command);
                    continue;
                }
                guess = 0;
                command.row.token = conversation.state.token;
                command.row.position = narrow(conversation.state.position);
                if !conversation.take_changes(&mut command) && named {
                    continue;
                }
            } else if named {
                continue;
            }
            post(row, &command);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mask of the slot's last conversation is still on the device, and must not be used for another one.
    #[test]
    fn mask_numbers_of_a_slot_never_repeat() {
        let mut conversation = Conversation::default();
        let mut numbers = Vec::new();
        for _ in 0..3 {
            conversation.begin(0, Parameters::default(), &History::of(&[]));
            for _ in 0..2 {
                numbers.extend(conversation.guide(true));
                conversation.masked();
                // The mask is sent, but not used.
                numbers.extend(conversation.guide(true));
                assert_eq!(conversation.guide(false), None);
            }
        }
        assert!(
            numbers.is_sorted_by(|a, b| a < b) && numbers[0] > 0,
            "{numbers:?}"
        );
        assert_eq!(numbers.len(), 12);
    }

    /// A row of a guess names its own mask, or none.
    #[test]
    fn guesses_have_masks_of_their_own() {
        let mut conversations = vec![Conversation::default()];
        conversations[0].guess_masks = vec![(9, 40)];
        let given = [Given::Guessed(7), Given::Guessed(8)];
        let mut masks = Vec::new();
        Listed::default().commands(
            (&[0, 0, 0][..], &given[..], 4),
            1,
            &mut conversations,
            |_, command| masks.push((command.row.mask, command.row.mask_at)),
        );
        assert_eq!(masks[..3], [(0, 0), (9, 40), (0, 0)]);
    }

    /// The row of the last forced token chooses with the conversation's mask.
    #[test]
    fn guesses_come_after_forced_tokens() {
        let mut conversations = vec![Conversation::default()];
        let number = conversations[0].guide(true).expect("it is guided");
        conversations[0].guess_masks = vec![(9, 40)];
        let given = [Given::Forced(5), Given::Forced(6), Given::Guessed(7)];
        let mut rows = Vec::new();
        Listed::default().commands(
            (&[0; 4][..], &given[..], 4),
            1,
            &mut conversations,
            |_, command| rows.push((command.row.advances, command.row.mask, command.row.token)),
        );
        let chooses = GUESSES;
        let expected = [
            (0, 0, 0),
            (0, number, 5),
            (chooses, number, 6),
            (chooses, 9, 7),
        ];
        assert_eq!(rows, expected);
    }

    /// A pass of a head chooses without the mask of the next token, which the step after it has again.
    #[test]
    fn a_pass_of_a_head_has_no_mask() {
        let mut conversations = vec![Conversation::default()];
        let number = conversations[0].guide(true);
        let mut listed = Listed::default();
        let mut posted = |all: &mut [Conversation]| {
            let mut guides = Vec::new();
            listed.commands((&[0][..], &[][..], 1), 1, all, |_, command| {
                guides.push(command.guide);
            });
            guides
        };
        assert_eq!(posted(&mut conversations), [number]);
        let freed = conversations[0].suspend_guide();
        assert_eq!(posted(&mut conversations), [Some(0)]);
        conversations[0].resume_guide(freed);
        assert_eq!(posted(&mut conversations), [number]);
        assert!(posted(&mut conversations).is_empty());
    }

    /// All rows of an assistant's pass have the last position with keys, and rotate by the next one.
    #[test]
    fn an_assistant_moves_a_conversation_for_one_launch() {
        let mut conversations = vec![Conversation::default()];
        conversations[0].state = StepState {
            token: 3,
            position: 5,
        };
        conversations[0].assist(true);
        let mut posted = Vec::new();
        let given = [Given::Guessed(7), Given::Guessed(8)];
        Listed::default().commands(
            (&[0, 0, 0][..], &given[..], 4),
            1,
            &mut conversations,
            |_, command| posted.push((command.row.position, command.row.turned, command.offset)),
        );
        assert_eq!(posted[0], (4, 0, Some(1)), "the device adds the offset");
        assert_eq!(posted[1..3], [(4, 5, None); 2]);
        conversations[0].assist(false);
        assert_eq!(conversations[0].state.position, 5);
        assert_eq!(conversations[0].rotary_offset, 0);
        // At its first token no position has keys.
        conversations[0].state.position = 0;
        conversations[0].assist(true);
        conversations[0].assist(false);
        assert_eq!(conversations[0].state.position, 0);
    }

    /// Each row with a guess chooses a token, and the device learns with the next step where the conversation goes on.
    #[test]
    fn rows_with_guesses_leave_the_conversation_to_the_host() {
        let mut conversations = vec![Conversation::default(); 2];
        let (mut listed, mut sequence) = (Listed::default(), 0);
        let mut rows = |slots: &[usize], given: &[Given], all: &mut [Conversation]| {
            let mut posted = Vec::new();
            sequence += 1;
            listed.commands((slots, given, 4), sequence, all, |row, command| {
                posted.push((row, command.row.advances, command.row.token, command.moves));
            });
            posted
        };
        conversations[1].state.token = 6;
        let given = [Given::Guessed(7), Given::Guessed(8)];
        let guessed = rows(&[0, 1, 1, 1], &given, &mut conversations);
        let expected = [(0, 1, 0), (1, GUESSES, 6), (2, GUESSES, 7), (3, GUESSES, 8)];
        let kept = |(row, advances, token, _): &(usize, u32, u32, bool)| (*row, *advances, *token);
        assert_eq!(guessed.iter().map(kept).collect::<Vec<_>>(), expected);
        // The first guess was right.
        conversations[1].advance(7, 1);
        conversations[1].advance(9, 2);
        conversations[1].moved();
        let after = rows(&[0, 1], &[], &mut conversations);
        assert_eq!(after[0], (1, 1, 9, true));
        assert!(rows(&[0, 1], &[], &mut conversations).is_empty());
    }
}

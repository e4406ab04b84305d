//! What the device knows of conversations: where each stands, its sampler, and which of them the rows of a step name.

use std::ops::Range;

use super::narrow;
use crate::device::{self, Command, NOBODY, Row, STEP_ROWS, SamplerState};
use crate::sampler::{History, Parameters, Scored, WINDOW};
use crate::tape::StepState;

/// The token that stands for logits that are not finite.
pub(super) const NOT_FINITE: u32 = u32::MAX;

/// The same, where the mask of what may come next is not there yet.
pub(super) const NOT_READY: u32 = u32::MAX - 1;

/// A conversation as it stands after the tokens that the host has taken; the device may be ahead.
#[derive(Clone, Debug, Default)]
pub(super) struct Conversation {
    pub(super) state: StepState,
    sampler: SamplerState,
    /// Number of the token that the next mask is of; `None`: nothing guides.
    guide: Option<u32>,
    /// The last of these numbers. They count on for whoever has the entry next: what lies on the device is a mask of someone
    /// before.
    number: u32,
    /// Whether the device knows another token and position, or another sampler; or another guide.
    moved: bool,
    guided: bool,
    /// Places of its table of pages that the device does not know.
    seated: Range<usize>,
    /// Whether the last step found no mask.
    pub(super) waits: bool,
    /// The token that was chosen last, then the most probable ones.
    pub(super) scored: Vec<Scored>,
}

impl Conversation {
    pub(super) fn begin(&mut self, position: usize, parameters: Parameters, history: &History) {
        let (tokens, pushed) = history.ring();
        let [seed_low, seed_high] = [parameters.seed, parameters.seed >> 32].map(|half| {
            #[allow(clippy::cast_possible_truncation)] // each is half of the seed
            let half = half as u32;
            half
        });
        self.state.position = position;
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
        self.scored.clear();
        self.moved();
    }

    /// It stands elsewhere than the device has it.
    pub(super) fn moved(&mut self) {
        (self.moved, self.guided) = (true, true);
    }

    /// These places of its table of pages have changed, besides those that the device does not know yet.
    pub(super) fn seated(&mut self, changed: Range<usize>) {
        if changed.is_empty() {
            return;
        }
        self.seated = if self.seated.is_empty() {
            changed
        } else {
            self.seated.start.min(changed.start)..self.seated.end.max(changed.end)
        };
    }

    /// The next step starts with `token` rather than the one chosen last.
    pub(super) fn post(&mut self, token: u32) {
        self.state.token = token;
        if let Some(last) = self.sampler.pushed.checked_sub(1) {
            self.remember(last, token);
        }
        self.moved();
    }

    /// A token has been taken, chosen or given.
    pub(super) fn goes_on(&mut self, token: u32, position: usize) {
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

    /// Whether a mask must say what it may choose next.
    pub(super) fn is_guided(&self) -> bool {
        self.guide.is_some()
    }

    /// Its next token is to be bound by a mask, or by none from now on; returns the number that the mask is to have.
    pub(super) fn guide(&mut self, bound: bool) -> Option<u32> {
        if self.is_guided() != bound {
            self.guided = true;
            self.guide = bound.then(|| self.next_number());
        }
        self.guide
    }

    /// A token has been chosen by a mask: the next one's is another.
    pub(super) fn masked(&mut self) {
        if self.is_guided() {
            self.guide = Some(self.next_number());
        }
    }

    fn next_number(&mut self) -> u32 {
        self.number = self.number.checked_add(1).unwrap_or(1);
        self.number
    }

    /// Whether it is told how probable tokens were.
    pub(super) fn is_scored(&self) -> bool {
        self.sampler.best > 0
    }

    /// What a command says of it, for a row: nothing, where the device knows all.
    fn told(&mut self, command: &mut Command) -> bool {
        let (moved, guided) = (
            std::mem::take(&mut self.moved),
            std::mem::take(&mut self.guided),
        );
        command.moves = moved;
        command.sampler = moved.then_some(self.sampler);
        command.guide = guided.then(|| self.guide.unwrap_or_default());
        let seated = std::mem::take(&mut self.seated);
        command.pages = (narrow(seated.start), narrow(seated.len()));
        moved || guided || !seated.is_empty()
    }

    /// A prompt from where it stands, whose token will have that number.
    pub(super) fn prompt(&mut self, entry: usize, rows: usize, sequence: u32) -> Command {
        let mut command = Command {
            row: Row {
                entry: narrow(entry),
                position: narrow(self.state.position),
                advances: 1,
                sequence,
                count: narrow(rows),
                ..Row::default()
            },
            ..Command::default()
        };
        self.told(&mut command);
        // A prompt says where it stands itself.
        command.moves = false;
        command
    }

    /// It stands elsewhere than the device knows, for only its cache has grown.
    pub(super) fn read(&mut self, rows: usize) {
        self.state.position += rows;
        self.moved();
    }
}

/// Which conversation each row of a step names on the device, once all that was launched has run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Listed([Option<Named>; STEP_ROWS]);

/// A conversation, its first row, and whether it goes on from this one.
type Named = (u32, u32, u32);

impl Listed {
    /// Nothing is known any more.
    pub(super) fn forget(&mut self) {
        self.0 = [None; STEP_ROWS];
    }

    /// The commands without which rows of step `sequence` would not be those of `entries`; rows beyond only fill it up
    /// to `rows`. An entry that comes again goes on with the next of `forced` tokens.
    pub(super) fn commands(
        &mut self,
        (entries, forced, rows): (&[usize], &[u32], usize),
        sequence: u32,
        conversations: &mut [Conversation],
        mut post: impl FnMut(usize, &Command),
    ) {
        let mut forced = forced.iter();
        for row in 0..rows.min(STEP_ROWS) {
            let at = entries.get(row).copied();
            let entry = at.map_or(NOBODY, narrow);
            let first = entries.iter().position(|other| Some(*other) == at);
            let first = first.unwrap_or(row);
            let again = entries.iter().skip(row + 1).any(|other| Some(*other) == at);
            let wanted = (entry, narrow(first), u32::from(!again));
            let named = self.0[row].replace(wanted) == Some(wanted);
            let mut command = Command {
                row: Row {
                    entry,
                    first: wanted.1,
                    advances: wanted.2,
                    sequence,
                    ..Row::default()
                },
                ..Command::default()
            };
            if let Some(conversation) = at.and_then(|at| conversations.get_mut(at)) {
                if first < row {
                    command.row.token = forced.next().copied().unwrap_or_default();
                    command.row.position = narrow(conversation.state.position + row - first);
                    post(row, &command);
                    continue;
                }
                command.row.token = conversation.state.token;
                command.row.position = narrow(conversation.state.position);
                if !conversation.told(&mut command) && named {
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

    /// The mask of whoever had the entry before is still on the device, and must not pass for another's.
    #[test]
    fn no_number_of_a_mask_comes_again_in_an_entry() {
        let mut conversation = Conversation::default();
        let mut numbers = Vec::new();
        for _ in 0..3 {
            conversation.begin(0, Parameters::default(), &History::of(&[]));
            for _ in 0..2 {
                numbers.extend(conversation.guide(true));
                conversation.masked();
                // It is sent, and nothing is chosen by it.
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
}

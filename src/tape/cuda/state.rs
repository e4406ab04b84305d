//! What the device knows of conversations: where each stands, its sampler, and which of them the rows of a step name.

use super::narrow;
use crate::device::{Command, NOBODY, Row, STEP_ROWS, SamplerState};
use crate::sampler::{History, Parameters};
use crate::tape::StepState;

/// The token that stands for logits that are not finite.
pub(super) const NOT_FINITE: u32 = u32::MAX;

/// A conversation as the host has it.
#[derive(Clone, Debug, Default)]
pub(super) struct Conversation {
    pub(super) state: StepState,
    /// What the device has yet to be told.
    sampler: Option<SamplerState>,
    /// Whether it stands elsewhere on the device.
    moved: bool,
}

impl Conversation {
    pub(super) fn begin(&mut self, position: usize, parameters: Parameters, history: &History) {
        self.state.position = position;
        self.moved = true;
        let (tokens, pushed) = history.ring();
        let [seed_low, seed_high] = [parameters.seed, parameters.seed >> 32].map(|half| {
            #[allow(clippy::cast_possible_truncation)] // each is half of the seed
            let half = half as u32;
            half
        });
        self.sampler = Some(SamplerState {
            temperature: parameters.temperature,
            top_p: parameters.top_p,
            min_p: parameters.min_p,
            repetition_penalty: parameters.repetition_penalty,
            top_k: parameters.top_k,
            counter: [0; 2],
            seed: [seed_low, seed_high],
            pushed: narrow(pushed),
            history: *tokens,
        });
    }

    /// It stands elsewhere than the device has it.
    pub(super) fn moved(&mut self) {
        self.moved = true;
    }

    /// A prompt from where it stands, whose token will have that number.
    pub(super) fn prompt(&mut self, entry: usize, rows: usize, sequence: u32) -> Command {
        Command {
            row: Row {
                entry: narrow(entry),
                position: narrow(self.state.position),
                advances: 1,
                sequence,
                count: narrow(rows),
                ..Row::default()
            },
            sampler: self.sampler.take(),
            ..Command::default()
        }
    }

    /// It stands where the device has it: a prompt has ended with a token.
    pub(super) fn settled(&mut self) {
        self.moved = false;
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
                if named && !conversation.moved && conversation.sampler.is_none() {
                    continue;
                }
                command.row.token = conversation.state.token;
                command.row.position = narrow(conversation.state.position);
                command.moves = std::mem::take(&mut conversation.moved);
                command.sampler = conversation.sampler.take();
            } else if named {
                continue;
            }
            post(row, &command);
        }
    }
}

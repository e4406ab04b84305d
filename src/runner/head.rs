//! Guesses of the model's head or assistant, in passes of which each guesses one more token.

use std::iter::repeat_n;

use super::Runner;
use super::error::RunError;

/// The least rows of a slot in a pass.
const LEAST: usize = 2;

impl Runner {
    /// Whether the model's head or an assistant is loaded, so that it can guess.
    #[must_use]
    pub fn has_head(&self) -> bool {
        self.forward.guess.is_some()
    }

    /// Whether an assistant guesses in place of a head.
    #[must_use]
    pub fn has_assistant(&self) -> bool {
        let guesser = self.forward.guess.as_ref();
        guesser.is_some_and(|guesser| guesser.assistant().is_some())
    }

    /// Returns the tokens that the model's head guesses for each slot after its latest chosen token: at most as many as are
    /// asked for, in the order in which they would follow. They are for `step_each`, as `Given::Guessed`.
    ///
    /// It may be called on the thread of the runner between two calls, for slots whose turn has chosen a token: after the
    /// last part of a prompt (`Ending::Token`), `step_each` or `step_forced`, each slot once. The slots must be pinned, as
    /// `join` leaves them. The logits that `row_logits` returns are lost.
    ///
    /// A slot has no guesses without a head, while a step is ahead or preempted (their tokens come first), if it has lost its
    /// recurrent state to another one, and at the end of its pages. The tokens and the guesses of all slots together fit into
    /// a step: those that come later in `wanted` have fewer guesses, or none. Masks limit no guess: one that a mask forbids is
    /// wrong.
    ///
    /// No slot changes: neither its position, its sampler and its mask, nor what its pages and its recurrent state have
    /// before its position. The head's K and V at the positions of guesses are overwritten by the rows that run there next. An
    /// assistant has none.
    ///
    /// # Errors
    /// As `step_each`, for errors of the whole step. The slots have not changed then.
    pub fn head_guesses(&mut self, wanted: &[(usize, usize)]) -> Result<Vec<Vec<u32>>, RunError> {
        self.head_guesses_until(wanted, &mut || false)
    }

    /// Returns the guesses of `head_guesses` that are made until `is_over` returns true: it is called before each pass.
    ///
    /// # Errors
    /// As `head_guesses`.
    pub fn head_guesses_until(
        &mut self,
        wanted: &[(usize, usize)],
        is_over: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Vec<u32>>, RunError> {
        let mut guesses = vec![Vec::new(); wanted.len()];
        if !self.has_head() || self.executor.is_ahead() {
            return Ok(guesses);
        }
        let most = self.most_guesses(wanted);
        let rows_of = |most: usize| if most == 0 { 0 } else { most.max(LEAST) };
        let rows: Vec<_> = most.iter().copied().map(rows_of).collect();
        let rows_each = || {
            wanted
                .iter()
                .zip(&rows)
                .map(|((slot, _), rows)| (*slot, *rows))
        };
        let slots: Vec<_> = rows_each()
            .flat_map(|(slot, rows)| repeat_n(slot, rows))
            .collect();
        if slots.is_empty() {
            return Ok(guesses);
        }
        let size = slots.len().next_power_of_two();
        self.head_tape(size)?;
        self.head.rows = slots.len();
        for pass in 0..most.iter().copied().max().unwrap_or(0) {
            if is_over() {
                break;
            }
            // Rows without a guess yet have any token: no earlier row sees them.
            let given = rows_each()
                .zip(&guesses)
                .flat_map(|((slot, rows), guesses)| {
                    let token = self.executor.state_of(slot).token;
                    let guesses = guesses.iter().copied().chain(repeat_n(token, rows));
                    guesses.take(rows.saturating_sub(1)).collect::<Vec<_>>()
                });
            let given: Vec<u32> = given.collect();
            let tape = &self.head.tapes[&size];
            let chosen = self.executor.guess_rows(tape, &slots, &given)?;
            let mut first = 0;
            for ((own, most), rows) in guesses.iter_mut().zip(&most).zip(&rows) {
                if pass < *most && own.len() == pass {
                    own.extend(chosen.get(first + pass).copied().flatten());
                }
                first += rows;
            }
            if guesses.iter().all(|own| own.len() <= pass) {
                break;
            }
        }
        Ok(guesses)
    }

    /// Returns the logits of each row of the last pass of `head_guesses`, (rows, vocabulary).
    ///
    /// # Errors
    /// If the device has failed.
    pub fn head_logits(&mut self) -> Result<Vec<f32>, RunError> {
        let rows = self.head.rows;
        let Some(tape) = self.head.tapes.get(&rows.next_power_of_two()) else {
            return Ok(Vec::new());
        };
        let mut logits = self.executor.all_logits(tape)?;
        logits.truncate(rows * self.vocabulary);
        Ok(logits)
    }

    /// The guesses that each slot can have.
    fn most_guesses(&self, wanted: &[(usize, usize)]) -> Vec<usize> {
        let mut free = self.rows;
        let each = wanted.iter().map(|(slot, most)| {
            let position = self.executor.state_of(*slot).position;
            let runs = position > 0 && self.kv.is_seated(*slot) && self.have_states(&[*slot]);
            let room = self.capacity_of(*slot).saturating_sub(position);
            // The row of the chosen token comes before those of the guesses.
            let most = (*most).min(room.min(free).saturating_sub(1));
            if !runs || most == 0 {
                return 0;
            }
            free -= 1 + most;
            most
        });
        each.collect()
    }

    /// Prepares the passes of all sizes, so that no guess waits for their memory.
    pub(super) fn prepare_head(&mut self) -> Result<(), RunError> {
        if !self.has_head() {
            return Ok(());
        }
        let most = self.rows.next_power_of_two();
        let sizes = std::iter::successors(Some(most), |rows| Some(rows / 2));
        let mut sizes = sizes.take_while(|rows| *rows >= LEAST);
        sizes.try_for_each(|rows| self.head_tape(rows))
    }

    fn head_tape(&mut self, rows: usize) -> Result<(), RunError> {
        if !self.head.tapes.contains_key(&rows)
            && let Some(tape) = self.forward.guess_tape(rows)
        {
            tape.check()?;
            self.executor.prepare(&tape)?;
            self.head.tapes.insert(rows, tape);
        }
        Ok(())
    }
}

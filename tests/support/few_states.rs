//! More turns than there are recurrent states: each turn has the bits that it has alone, although it loses its state to
//! others. Meanwhile prompts and steps are preempted, steps are launched ahead and dropped, and turns are cancelled. Runs
//! on any executor of a recurrent model whose cache holds 16 conversations of 160 positions, and whose steps have eight
//! rows.

use std::error::Error;
use std::time::Instant;

use ganglion::kv::Wanted;
use ganglion::runner::{LostStates, Runner, Stepped};
use ganglion::sampler::Parameters;
use ganglion::tape::{Ending, STEP_ROWS};

/// The turns that have begun by the end of a phase, and the most of them at the same time. Between two phases all slots
/// are idle.
const PHASES: [(usize, usize); 3] = [(20, 14), (28, 6), (42, 14)];
const ALL: usize = 42;
const PROMPTS: [usize; 7] = [140, 1, 63, 64, 65, 90, 129];
/// Tokens of each turn, after the first.
const STEPS: usize = 12;
/// The most rows of a slice.
const SLICE: usize = 64;

/// A token, and the bits of the most probable ones.
type Step = (u32, Vec<(u32, u32)>);

struct Turn {
    number: usize,
    slot: usize,
    prompt: Vec<u32>,
    /// The tokens of the prompt that were prefilled.
    prefilled: usize,
    /// The tokens after the first.
    said: usize,
}

impl Turn {
    fn decodes(&self) -> bool {
        self.prefilled == self.prompt.len()
    }
}

struct Crowd<'a> {
    runner: &'a mut Runner,
    running: Vec<Turn>,
    /// The slots of the step that was launched ahead.
    ahead: Vec<usize>,
    alone: Vec<Vec<Step>>,
    random: fastrand::Rng,
    steps: usize,
}

/// Returns how many states were lost, or the first difference.
pub(crate) fn hold(runner: &mut Runner) -> Result<LostStates, Box<dyn Error>> {
    let mut crowd = Crowd {
        runner,
        running: Vec::new(),
        ahead: Vec::new(),
        alone: Vec::new(),
        random: fastrand::Rng::with_seed(3),
        steps: 0,
    };
    for number in 0..ALL {
        let turn = crowd.begin(number)?;
        crowd.runner.prefill_all(&turn.prompt)?;
        let mut steps = vec![crowd.said(turn.slot)];
        for _ in 0..STEPS {
            crowd.runner.step_rows(&[turn.slot], false)?;
            steps.push(crowd.said(turn.slot));
        }
        crowd.alone.push(steps);
        crowd.end(&turn);
    }
    let before = crowd.runner.lost_states();
    let mut number = 0;
    for (end, most) in PHASES {
        loop {
            while number < end && crowd.running.len() < most {
                let turn = crowd.begin(number)?;
                crowd.running.push(turn);
                number += 1;
            }
            if crowd.running.is_empty() {
                break;
            }
            let some = crowd.random.usize(0..crowd.running.len());
            if crowd.random.u32(0..80) == 0 {
                let turn = crowd.running.swap_remove(some);
                crowd.end(&turn);
            } else if crowd.running[some].decodes() {
                crowd.step()?;
            } else {
                crowd.prefill(some)?;
            }
        }
    }
    let after = crowd.runner.lost_states();
    Ok(LostStates {
        idle: after.idle - before.idle,
        continued: after.continued - before.continued,
    })
}

impl Crowd<'_> {
    /// Starts a turn of its own user.
    fn begin(&mut self, number: usize) -> Result<Turn, Box<dyn Error>> {
        let user = u32::try_from(number)?;
        let vocabulary = u32::try_from(self.runner.shape().vocabulary)?;
        let token = |at: u32| (at * 37 + 11 * user + 5) % vocabulary;
        let length = PROMPTS[number % PROMPTS.len()];
        let prompt: Vec<_> = (0..).map(token).take(length).collect();
        let parameters = Parameters {
            temperature: if user.is_multiple_of(2) { 0.0 } else { 0.9 },
            repetition_penalty: 1.1,
            seed: user.into(),
            logprobs: Some(20),
            ..Parameters::default()
        };
        let (wanted, positions) = (Wanted::without_answers(&prompt), length + STEPS + 2);
        let joined = (self.runner).join(None, user, wanted, parameters, positions)?;
        let (slot, prefilled) = joined;
        Ok(Turn {
            number,
            slot,
            prompt,
            prefilled,
            said: 0,
        })
    }

    fn end(&mut self, turn: &Turn) {
        self.runner.leave(turn.slot);
        self.runner
            .erase(u32::try_from(turn.number).unwrap_or_default());
    }

    /// Runs a slice of a prompt, which is often preempted. The step that is ahead is preempted, or loses its tokens.
    fn prefill(&mut self, index: usize) -> Result<(), Box<dyn Error>> {
        if self.random.bool() {
            self.runner.preempt_step(&self.ahead)?;
        }
        let turn = &mut self.running[index];
        let left = &turn.prompt[turn.prefilled..];
        let rows = self.runner.run_length(turn.slot, left.len(), SLICE);
        let last = rows == left.len();
        let ending = if last { Ending::Token } else { Ending::Kv };
        self.runner.turn_to(turn.slot);
        let leaves = self.random.bool();
        let mut preempts = || leaves;
        let before = self.runner.len();
        (self.runner).prefill_until(&left[..rows], ending, Some(&mut preempts))?;
        turn.prefilled += self.runner.len() - before;
        let (slot, number, ends) = (turn.slot, turn.number, turn.decodes());
        if ends && self.said(slot) != self.alone[number][0] {
            return Err(format!("turn {number} differs after its prompt").into());
        }
        Ok(())
    }

    /// Runs a step of some turns, and perhaps launches one of others behind it.
    fn step(&mut self) -> Result<(), Box<dyn Error>> {
        if !self.runner.is_ahead() {
            self.ahead = self.some_slots(|_| false);
        }
        let current = std::mem::take(&mut self.ahead);
        let behind = if self.random.bool() {
            self.some_slots(|slot| current.contains(&slot))
        } else {
            Vec::new()
        };
        let rows: Vec<_> = current.iter().map(|slot| (*slot, Vec::new())).collect();
        self.steps += 1;
        let mut parts = 0;
        let mut leaves = |_| {
            parts += 1;
            (self.steps + parts).is_multiple_of(9)
        };
        let leaves = Some(&mut leaves as &mut dyn FnMut(Instant) -> bool);
        let tokens = match self.runner.step_each(&rows, &behind, (leaves, None))? {
            Stepped::Chosen(tokens) => tokens,
            Stepped::Preempted => {
                self.ahead = current;
                return Ok(());
            }
        };
        for token in tokens {
            token?;
        }
        self.ahead = behind;
        for slot in current {
            let Some(at) = self.running.iter().position(|turn| turn.slot == slot) else {
                continue;
            };
            self.running[at].said += 1;
            let Turn { number, said, .. } = self.running[at];
            let (ours, alone) = (self.said(slot), &self.alone[number][said]);
            if ours != *alone {
                return Err(
                    format!("turn {number}, token {said}: {ours:?}, alone {alone:?}").into(),
                );
            }
            if said == STEPS {
                let turn = self.running.swap_remove(at);
                self.end(&turn);
            }
        }
        Ok(())
    }

    /// Some slots of turns that decode, and go on after the running step, which `steps` says whether they have a row of.
    fn some_slots(&mut self, steps: impl Fn(usize) -> bool) -> Vec<usize> {
        let goes_on =
            |turn: &&Turn| turn.decodes() && turn.said + usize::from(steps(turn.slot)) < STEPS;
        let mut slots: Vec<_> = self
            .running
            .iter()
            .filter(goes_on)
            .map(|turn| turn.slot)
            .collect();
        self.random.shuffle(&mut slots);
        slots.truncate(self.random.usize(1..=STEP_ROWS));
        slots
    }

    fn said(&self, slot: usize) -> Step {
        let scored = self.runner.scored(slot).iter();
        let bits = scored.map(|one| (one.token, one.logprob.to_bits()));
        (self.runner.state_of(slot).token, bits.collect())
    }
}

//! Conversations with guesses, right and wrong ones: each has the bits that it has without. Several share a step, and some
//! steps have no guesses and are launched ahead. Runs on any executor whose cache holds eight conversations of 160 positions,
//! and whose steps have eight rows.

use std::error::Error;

use ganglion::executor::Given;
use ganglion::kv::Wanted;
use ganglion::runner::{Runner, Stepped};
use ganglion::sampler::{Mask, Parameters, Scored};
use ganglion::tape::STEP_ROWS;

const PROMPTS: [usize; 8] = [1, 2, 9, 57, 62, 63, 64, 80];
/// Tokens of each conversation, after the first.
const STEPS: usize = 44;

/// A token, and the bits of the most probable ones.
type Step = (u32, Vec<(u32, u32)>);

/// The guesses of all steps.
#[derive(Debug, Default)]
pub(crate) struct Guesses {
    pub(crate) right: usize,
    pub(crate) wrong: usize,
}

struct Talk {
    conversation: usize,
    slot: usize,
    said: usize,
}

struct Together<'a> {
    runner: &'a mut Runner,
    running: Vec<Talk>,
    /// The slots of the step that was launched ahead.
    ahead: Vec<usize>,
    /// The steps of each conversation without guesses.
    alone: Vec<Vec<Step>>,
    random: fastrand::Rng,
    guesses: Guesses,
}

/// Returns the guesses, or the first difference.
pub(crate) fn hold(runner: &mut Runner) -> Result<Guesses, Box<dyn Error>> {
    let mut alone = Vec::new();
    for conversation in 0..PROMPTS.len() {
        let slot = begin(runner, conversation)?;
        let mut steps = vec![said(runner, slot, 0)];
        for _ in 0..STEPS {
            runner.step_rows(&[slot], false)?;
            steps.push(said(runner, slot, 0));
        }
        leave(runner, conversation, slot);
        alone.push(steps);
    }
    let mut all = Together {
        runner,
        running: Vec::new(),
        ahead: Vec::new(),
        alone,
        random: fastrand::Rng::with_seed(17),
        guesses: Guesses::default(),
    };
    for conversation in 0..PROMPTS.len() {
        let slot = begin(all.runner, conversation)?;
        all.running.push(Talk {
            conversation,
            slot,
            said: 0,
        });
    }
    while !all.running.is_empty() {
        all.step()?;
    }
    masked(all.runner, &all.alone[4])?;
    Ok(all.guesses)
}

impl Together<'_> {
    /// Runs a step of some conversations: the one that was launched ahead, or one with guesses.
    fn step(&mut self) -> Result<(), Box<dyn Error>> {
        let mut slots = std::mem::take(&mut self.ahead);
        if slots.is_empty() {
            slots.extend(self.running.iter().map(|talk| talk.slot));
            self.random.shuffle(&mut slots);
            slots.truncate(self.random.usize(1..=STEP_ROWS));
        }
        let mut spare = STEP_ROWS - slots.len();
        let mut rows = Vec::new();
        for slot in slots.iter().copied() {
            let given = if self.runner.is_ahead() {
                Vec::new()
            } else {
                self.guess(slot, spare)
            };
            spare -= given.len();
            rows.push((slot, given));
        }
        let guessed = rows.iter().any(|(_, given)| !given.is_empty());
        // The conversation still runs when the step behind this one is taken.
        let goes_on = |slot: &usize| {
            let mut running = self.running.iter();
            running.any(|talk| talk.slot == *slot && talk.said + 2 < STEPS)
        };
        let behind = if !guessed && self.random.bool() && slots.iter().all(goes_on) {
            slots
        } else {
            Vec::new()
        };
        let stepped = self.runner.step_each(&rows, &behind, (None, None))?;
        let Stepped::Chosen(chosen) = stepped else {
            return Err("a step was preempted".into());
        };
        for ((slot, given), chosen) in rows.iter().zip(chosen) {
            self.check(*slot, given, &chosen?)?;
        }
        if self.runner.is_ahead() {
            self.ahead = behind;
        }
        let ended = self.running.extract_if(.., |talk| talk.said == STEPS);
        for talk in ended {
            leave(self.runner, talk.conversation, talk.slot);
        }
        Ok(())
    }

    /// Returns some guesses, of which many are right up to the first that is not.
    fn guess(&mut self, slot: usize, spare: usize) -> Vec<Given> {
        let talk = self.running.iter().find(|talk| talk.slot == slot);
        let Some(talk) = talk else {
            return Vec::new();
        };
        let coming = &self.alone[talk.conversation][talk.said + 1..];
        let count = self.random.usize(0..=spare.min(coming.len() - 1));
        let random = &mut self.random;
        let guess = |(token, _): &Step| match random.u32(0..8) {
            0 => random.u32(0..256),
            // Close to the right one.
            1 => token ^ 1,
            _ => *token,
        };
        let guesses = coming.iter().take(count).map(guess);
        guesses.map(Given::Guessed).collect()
    }

    /// Compares the tokens that a conversation chose with those of it without guesses.
    fn check(
        &mut self,
        slot: usize,
        given: &[Given],
        chosen: &[u32],
    ) -> Result<(), Box<dyn Error>> {
        let mut running = self.running.iter_mut();
        let Some(talk) = running.find(|talk| talk.slot == slot) else {
            return Ok(());
        };
        let coming = &self.alone[talk.conversation][talk.said + 1..];
        let pairs = given.iter().zip(coming);
        let right = pairs.take_while(|(one, coming)| one.token() == coming.0);
        let right = right.count();
        if chosen.len() != 1 + right {
            return Err(format!("{right} right guesses of {given:?}: {chosen:?}").into());
        }
        for (index, (token, coming)) in chosen.iter().zip(coming).enumerate() {
            let own = (*token, said(self.runner, slot, index).1);
            if own != *coming {
                let (conversation, at) = (talk.conversation, talk.said + 1 + index);
                return Err(format!(
                    "conversation {conversation}, token {at}, after {given:?}: {own:?}, alone {coming:?}"
                )
                .into());
            }
        }
        talk.said += chosen.len();
        self.guesses.right += right;
        self.guesses.wrong += given.len() - right;
        Ok(())
    }
}

/// Whether a conversation whose tokens a mask limits accepts no guess, since the mask is for one token.
fn masked(runner: &mut Runner, alone: &[Step]) -> Result<(), Box<dyn Error>> {
    let slot = begin(runner, 4)?;
    let all = Mask::new(vec![u32::MAX; runner.vocabulary().div_ceil(32)]);
    runner.guide(slot, Some(&all))?;
    let given = alone[1..4].iter().map(|(token, _)| Given::Guessed(*token));
    let given: Vec<_> = given.collect();
    let rows = [(slot, given)];
    let Stepped::Chosen(chosen) = runner.step_each(&rows, &[], (None, None))? else {
        return Err("a step was preempted".into());
    };
    for chosen in chosen {
        if chosen? != [alone[1].0] {
            return Err("a guess was accepted without a mask".into());
        }
    }
    leave(runner, 4, slot);
    Ok(())
}

/// Starts a conversation of its own user, and returns its slot.
fn begin(runner: &mut Runner, conversation: usize) -> Result<usize, Box<dyn Error>> {
    let user = u32::try_from(conversation)?;
    let vocabulary = u32::try_from(runner.shape().vocabulary)?;
    let token = |at: u32| (at * 37 + 11 * user + 5) % vocabulary;
    let prompt: Vec<_> = (0..).map(token).take(PROMPTS[conversation]).collect();
    let parameters = Parameters {
        temperature: if user.is_multiple_of(2) { 0.0 } else { 0.9 },
        // Every other one has no penalty.
        repetition_penalty: if user % 4 < 2 { 1.2 } else { 1.0 },
        seed: user.into(),
        logprobs: Some(20),
        ..Parameters::default()
    };
    let (wanted, positions) = (Wanted::without_answers(&prompt), prompt.len() + STEPS + 2);
    let (slot, cached) = runner.join(None, user, wanted, parameters, positions)?;
    runner.turn_to(slot);
    runner.prefill_all(&prompt[cached..])?;
    Ok(slot)
}

fn leave(runner: &mut Runner, conversation: usize, slot: usize) {
    runner.leave(slot);
    runner.erase(u32::try_from(conversation).unwrap_or_default());
}

/// The token that was chosen last in a slot, and the scores of one that its last step chose.
fn said(runner: &Runner, slot: usize, index: usize) -> Step {
    let scored = runner.scored_at(slot, index).iter();
    let bits = scored.map(|Scored { token, logprob }| (*token, logprob.to_bits()));
    (runner.state_of(slot).token, bits.collect())
}

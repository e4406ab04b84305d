//! Conversations with guesses, right and wrong ones, some of them after forced tokens: each has the bits that it has without.
//! Several share a step, and some steps have no guesses and are launched ahead. Runs on any executor whose cache holds eight conversations of 160 positions,
//! and whose steps have eight rows.

use std::error::Error;

use ganglion::executor::Given;
use ganglion::kv::Wanted;
use ganglion::runner::{Runner, Stepped};
use ganglion::sampler::{Mask, Parameters, Promise, Scored};
use ganglion::tape::STEP_ROWS;

const PROMPTS: [usize; 8] = [1, 2, 9, 57, 62, 63, 64, 80];
/// Tokens of each conversation, after the first.
const STEPS: usize = 56;

/// A token, and the bits of the most probable ones.
type Step = (u32, Vec<(u32, u32)>);

/// The guesses of all steps.
#[derive(Debug, Default)]
pub(crate) struct Guesses {
    pub(crate) right: usize,
    pub(crate) wrong: usize,
    /// Right ones after forced tokens.
    pub(crate) after_forced: usize,
    /// Right ones of conversations whose tokens masks limit.
    pub(crate) masked: usize,
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
    all.guesses.masked = masked(all.runner)?;
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

    /// Returns some forced tokens, and guesses, of which many are right up to the first that is not.
    fn guess(&mut self, slot: usize, spare: usize) -> Vec<Given> {
        let talk = self.running.iter().find(|talk| talk.slot == slot);
        let Some(talk) = talk else {
            return Vec::new();
        };
        let coming = &self.alone[talk.conversation][talk.said + 1..];
        let count = self.random.usize(0..=spare.min(coming.len() - 1));
        let random = &mut self.random;
        let forced = if random.bool() {
            random.usize(1..=2)
        } else {
            0
        };
        let (forced, coming) = coming[..count].split_at(forced.min(count));
        let guess = |(token, _): &Step| match random.u32(0..6) {
            0 => random.u32(0..256),
            // Close to the right one.
            1 => token ^ 1,
            _ => *token,
        };
        let forced = forced.iter().map(|(token, _)| Given::Forced(*token));
        let guesses = coming.iter().map(guess).map(Given::Guessed);
        forced.chain(guesses).collect()
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
        let guesses = given.iter().filter(|one| one.is_guess()).count();
        let (forced, guesses) = given.split_at(given.len() - guesses);
        talk.said += forced.len();
        let coming = &self.alone[talk.conversation][talk.said + 1..];
        let pairs = guesses.iter().zip(coming);
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
        self.guesses.wrong += guesses.len() - right;
        self.guesses.after_forced += if forced.is_empty() { 0 } else { right };
        Ok(())
    }
}

/// Compares conversations whose tokens masks limit with themselves without guesses. Some masks after guesses are late, or never
/// come. Returns the number of guesses that were accepted.
fn masked(runner: &mut Runner) -> Result<usize, Box<dyn Error>> {
    const CONVERSATIONS: [usize; 3] = [1, 4, 6];
    let alone = CONVERSATIONS.map(|conversation| masked_alone(runner, conversation));
    let mut running = Vec::new();
    for (conversation, alone) in CONVERSATIONS.into_iter().zip(alone) {
        let alone = alone?;
        let slot = begin(runner, conversation)?;
        let said = 0;
        let talk = Talk {
            conversation,
            slot,
            said,
        };
        running.push((talk, alone));
    }
    let (mut random, mut accepted) = (fastrand::Rng::with_seed(23), 0);
    let mut tries = 0;
    while !running.is_empty() {
        let mut spare = STEP_ROWS - running.len();
        let mut rows = Vec::new();
        for (talk, alone) in &running {
            let tokens: Vec<_> = alone.iter().map(|(token, _)| *token).collect();
            let (said, coming) = tokens.split_at(talk.said + 1);
            let count = random.usize(0..=spare.min(coming.len() - 1));
            let (forced, guesses) = coming[..count].split_at(random.usize(0..3).min(count));
            let mut guesses = guesses.to_vec();
            if let Some(one) = guesses.get_mut(random.usize(0..8)) {
                *one ^= 1;
            }
            let said = [said, forced].concat();
            runner.guide(talk.slot, Some(&mask_after(runner, &said)))?;
            let mut masks = Vec::new();
            for guesses in (1..=guesses.len()).map(|count| &guesses[..count]) {
                let mask = mask_after(runner, &[&said, guesses].concat());
                let (promise, promised) = Promise::new();
                match random.u32(0..16) {
                    0 => drop(promised),
                    1 => drop(std::thread::spawn(move || promised.keep(mask))),
                    _ => promised.keep(mask),
                }
                masks.push(promise);
            }
            runner.guide_guesses(talk.slot, masks)?;
            spare -= count;
            let forced = forced.iter().copied().map(Given::Forced);
            let given = forced.chain(guesses.into_iter().map(Given::Guessed));
            rows.push((talk.slot, given.collect::<Vec<_>>()));
        }
        let Stepped::Chosen(chosen) = runner.step_each(&rows, &[], (None, None))? else {
            return Err("a step was preempted".into());
        };
        for (((talk, alone), (_, given)), chosen) in running.iter_mut().zip(&rows).zip(chosen) {
            let chosen = chosen?;
            talk.said += given.iter().filter(|one| !one.is_guess()).count();
            let coming = &alone[talk.said + 1..];
            for (index, (token, coming)) in chosen.iter().zip(coming).enumerate() {
                let own = (*token, said(runner, talk.slot, index).1);
                if own != *coming {
                    let (conversation, at) = (talk.conversation, talk.said + 1 + index);
                    return Err(format!(
                        "masked conversation {conversation}, token {at}: {own:?}, alone {coming:?}"
                    )
                    .into());
                }
            }
            talk.said += chosen.len();
            accepted += chosen.len().saturating_sub(1);
        }
        for (talk, _) in running.extract_if(.., |(talk, _)| talk.said == STEPS) {
            leave(runner, talk.conversation, talk.slot);
        }
        tries += 1;
        if tries > 100 * STEPS {
            return Err("masks never come".into());
        }
    }
    Ok(accepted)
}

/// Returns the steps of a conversation each of whose tokens has a mask.
fn masked_alone(runner: &mut Runner, conversation: usize) -> Result<Vec<Step>, Box<dyn Error>> {
    let slot = begin(runner, conversation)?;
    let mut steps = vec![said(runner, slot, 0)];
    for _ in 0..STEPS {
        let tokens: Vec<_> = steps.iter().map(|(token, _)| *token).collect();
        runner.guide(slot, Some(&mask_after(runner, &tokens)))?;
        let before = runner.state_of(slot).position;
        let mut tries = 0;
        // A device copies the mask while the step runs.
        while runner.state_of(slot).position == before {
            runner.step_rows(&[slot], false)?;
            tries += 1;
            if tries > 100 {
                return Err("a mask never comes".into());
            }
        }
        steps.push(said(runner, slot, 0));
    }
    leave(runner, conversation, slot);
    Ok(steps)
}

/// Returns a mask of a quarter of all tokens, which depends on all tokens before.
fn mask_after(runner: &Runner, tokens: &[u32]) -> Mask {
    let hash = tokens.iter().fold(7_u32, |hash, token| {
        hash.wrapping_mul(31).wrapping_add(*token)
    });
    let mut random = fastrand::Rng::with_seed(hash.into());
    let words = 0..Mask::words_of(runner.vocabulary());
    Mask::new(words.map(|_| 0x1111_1111 << random.u32(0..4)).collect())
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

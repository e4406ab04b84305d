//! Prompts that are preempted between two half layers have the bits of an uninterrupted prefill, whatever ran in the
//! meantime. Runs on any executor whose cache holds four conversations of 160 positions.

use ganglion::executor::{PREEMPTED, Pass};
use ganglion::kv::Wanted;
use ganglion::runner::{RunError, Runner};
use ganglion::sampler::Parameters;
use ganglion::tape::Ending;

/// Each prompt has its own user.
const PROMPTS: [usize; 3] = [140, 90, 70];
const STEPS: usize = 4;

/// A token and the bits of its logits; a prompt has no token.
type Step = (u32, Vec<u32>);

/// A prompt that is being prefilled.
struct Reading {
    user: u32,
    entry: usize,
    prompt: Vec<u32>,
    read: usize,
    said: Vec<Step>,
}

/// Returns the first difference.
pub(crate) fn hold(runner: &mut Runner) -> Result<(), String> {
    run(runner).map_err(|error| error.to_string())?
}

fn run(runner: &mut Runner) -> Result<Result<(), String>, RunError> {
    let mut alone = Vec::new();
    for user in 0..PROMPTS.len() {
        let mut one = begin(runner, user)?;
        while one.read < one.prompt.len() {
            one.advance(runner, false)?;
        }
        (0..STEPS).try_for_each(|_| one.step(runner))?;
        alone.push(one.end(runner));
    }

    let mut all = Vec::new();
    for user in 0..PROMPTS.len() {
        all.push(begin(runner, user)?);
    }
    let mut left = [0; PROMPTS.len()];
    while all.iter().any(|one| one.read < one.prompt.len()) {
        for (one, left) in all.iter_mut().zip(&mut left) {
            if one.read < one.prompt.len() {
                *left += usize::from(one.advance(runner, true)? == Pass::Preempted);
            } else if one.said.len() <= STEPS {
                one.step(runner)?;
            }
        }
    }
    for one in &mut all {
        while one.said.len() <= STEPS {
            one.step(runner)?;
        }
    }
    // The third has no slot until one of the others has ended.
    if left[..PREEMPTED].iter().any(|left| *left < 2) {
        return Ok(Err(format!("they were left {left:?} times")));
    }
    for (one, alone) in all.into_iter().zip(alone) {
        let (user, said) = (one.user, one.end(runner));
        if let Some(at) = (0..=STEPS).find(|at| said[*at] != alone[*at]) {
            let (token, of_alone) = (said[at].0, alone[at].0);
            return Ok(Err(format!(
                "user {user}, token {at}: {token}, alone {of_alone}"
            )));
        }
    }

    // A leaving conversation drops its preempted part.
    for _ in 0..=PREEMPTED {
        let mut one = begin(runner, 0)?;
        if one.advance(runner, true)? != Pass::Preempted {
            return Ok(Err("those who left kept their places".into()));
        }
        one.end(runner);
    }
    Ok(Ok(()))
}

fn begin(runner: &mut Runner, user: usize) -> Result<Reading, RunError> {
    let (length, user) = (PROMPTS[user], u32::try_from(user).unwrap_or_default());
    let vocabulary = u32::try_from(runner.shape().vocabulary).unwrap_or(u32::MAX);
    let token = |at: u32| (at * 37 + 11 * user + 5) % vocabulary;
    let prompt: Vec<_> = (0..).map(token).take(length).collect();
    let parameters = Parameters {
        temperature: 0.8,
        repetition_penalty: 1.1,
        seed: user.into(),
        ..Parameters::default()
    };
    let positions = length + STEPS + 2;
    let (entry, read) = runner.join(
        None,
        user,
        Wanted::without_answers(&prompt),
        parameters,
        positions,
    )?;
    let said = Vec::new();
    Ok(Reading {
        user,
        entry,
        prompt,
        read,
        said,
    })
}

impl Reading {
    /// Prefills a part of the prompt, or less if it is preempted.
    fn advance(&mut self, runner: &mut Runner, leave: bool) -> Result<Pass, RunError> {
        let rows = runner.prefill_chunk().min(self.prompt.len() - self.read);
        let end = self.read + rows;
        let last = end == self.prompt.len();
        let ending = if last { Ending::Token } else { Ending::Kv };
        runner.turn_to(self.entry);
        let tokens = &self.prompt[self.read..end];
        let pass = runner.prefill_until(tokens, ending, Some(&mut || leave))?;
        if pass == Pass::Ended {
            self.read = end;
            if last {
                self.said.push((runner.token(), Vec::new()));
            }
        }
        Ok(pass)
    }

    fn step(&mut self, runner: &mut Runner) -> Result<(), RunError> {
        let token = runner.step_rows(&[self.entry], false)?[0];
        let logits = runner.row_logits(1)?.into_iter().map(f32::to_bits);
        self.said.push((token, logits.collect()));
        Ok(())
    }

    /// Checks that no part of it remains for the next conversation.
    fn end(self, runner: &mut Runner) -> Vec<Step> {
        runner.leave(self.entry);
        runner.erase(self.user);
        self.said
    }
}

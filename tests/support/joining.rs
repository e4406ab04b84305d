//! Conversations that join and leave while a step is launched ahead or preempted: each has the bits that it has without
//! steps ahead. Some launches are refused; without a recording, the conversations of such a step are unchanged. Runs on
//! any executor whose cache holds eight conversations of 160 positions, and whose steps have eight rows.

use std::error::Error;
use std::time::Instant;

use ganglion::fault::{Call, Fault, How};
use ganglion::graph::Mode;
use ganglion::kv::{Owner, Wanted};
use ganglion::runner::{RunError, Runner, Stepped};
use ganglion::sampler::Parameters;
use ganglion::tape::{Ending, STEP_ROWS};

const PROMPTS: [usize; 8] = [1, 2, 9, 33, 63, 64, 65, 80];
/// Tokens of each conversation that are compared with those of it alone, after the first.
const STEPS: usize = 40;
/// Rows change before each step modulo this.
const PERIOD: usize = 64;

/// A token, and the bits of all logits of its row.
type Step = (u32, Vec<(u32, u32)>);

struct Talk {
    conversation: usize,
    entry: usize,
    said: usize,
}

struct Together<'a> {
    runner: &'a mut Runner,
    /// The oldest first.
    running: Vec<Talk>,
    /// The slots of the step that was launched ahead.
    ahead: Vec<usize>,
    /// The steps of each conversation without steps ahead.
    alone: Vec<Vec<Step>>,
    /// The number of preempted steps.
    left: usize,
    /// The number of refused steps.
    refused: usize,
    /// The number of steps whose tokens were collected.
    asked: usize,
}

/// Returns the number of steps launched behind other conversations and of preempted ones, or the first difference.
pub(crate) fn hold(runner: &mut Runner) -> Result<(usize, usize), Box<dyn Error>> {
    let mut all = Together {
        runner,
        running: Vec::new(),
        ahead: Vec::new(),
        alone: Vec::new(),
        left: 0,
        refused: 0,
        asked: 0,
    };
    for conversation in 0..PROMPTS.len() {
        all.begin(conversation)?;
        let entry = all.running.remove(0).entry;
        let mut steps = vec![all.said(entry)];
        for _ in 0..STEPS {
            all.runner.step_rows(&[entry], false)?;
            steps.push(all.said(entry));
        }
        all.runner.leave(entry);
        all.alone.push(steps);
    }
    let (mut step, mut met, mut next, mut others) = (0, [false; PERIOD], 0, 0);
    for round in 0.. {
        if !met.contains(&false) {
            break;
        }
        let rows = 1 + round * 5 % STEP_ROWS;
        while all.running.len() >= rows || all.running.iter().any(|talk| talk.said + 6 > STEPS) {
            let entry = all.running.remove(0).entry;
            all.runner.leave(entry);
        }
        while all.running.len() < rows {
            next += 1;
            let conversation = next % PROMPTS.len();
            let mut running = all.running.iter();
            if running.all(|talk| talk.conversation != conversation) {
                all.begin(conversation)?;
            }
        }
        met[step % PERIOD] = true;
        if round % 4 == 2 {
            let eager = all.runner.graph().mode() == Mode::None;
            let (call, skip) = if eager {
                (Call::Launch, round * 7 % 60)
            } else {
                (Call::GraphLaunch, round / 8 % 6)
            };
            all.runner.executor().faults().arm(Fault {
                call,
                skip: u32::try_from(skip)?,
                how: [How::Before, How::After][round / 4 % 2],
            });
        }
        for _ in 0..=round % 3 {
            let entries: Vec<_> = all.running.iter().map(|talk| talk.entry).collect();
            // From time to time a conversation is idle.
            let idle = usize::from(round % 4 == 0 && entries.len() > 1);
            if all.ahead.is_empty() {
                all.ahead.clone_from(&entries);
            }
            others += usize::from(all.ahead != entries[idle..]);
            all.take(&entries[idle..])?;
            step += 1;
        }
        all.runner.executor().faults().disarm();
    }
    all.take(&[])?;
    if all.runner.graph().mode() == Mode::None && all.refused < 2 {
        return Err(format!("{} steps were refused", all.refused).into());
    }
    for talk in &all.running {
        all.runner.leave(talk.entry);
    }
    Ok((others, all.left))
}

impl Together<'_> {
    /// Starts a conversation. The tokens of a step that was launched ahead are collected after its prompt has started.
    fn begin(&mut self, conversation: usize) -> Result<(), Box<dyn Error>> {
        let user = u32::try_from(conversation)?;
        let vocabulary = u32::try_from(self.runner.shape().vocabulary)?;
        let token = |at: u32| (at * 37 + 11 * user + 5) % vocabulary;
        let prompt: Vec<_> = (0..).map(token).take(PROMPTS[conversation]).collect();
        let parameters = Parameters {
            temperature: if user.is_multiple_of(2) { 0.0 } else { 0.9 },
            repetition_penalty: 1.1,
            seed: user.into(),
            logprobs: Some(20),
            ..Parameters::default()
        };
        let owner = Owner(user.into());
        if self.runner.is_launched(owner) {
            self.take(&[])?;
        }
        let (wanted, positions) = (Wanted::without_answers(&prompt), prompt.len() + STEPS + 2);
        let joined = (self.runner).join(Some(owner), user, wanted, parameters, positions)?;
        let (entry, mut read) = joined;
        while read < prompt.len() {
            let end = prompt.len().min(read + self.runner.prefill_chunk());
            let last = end == prompt.len();
            let ending = if last { Ending::Token } else { Ending::Kv };
            self.runner.turn_to(entry);
            // A preemptible step is preempted, and continues after the prefill.
            let left = self.runner.preempt_step(&self.ahead)?;
            if !left {
                self.runner.start(&prompt[read..end], ending)?;
                self.take(&[])?;
            }
            self.runner.turn_to(entry);
            self.runner.prefill(&prompt[read..end], ending)?;
            read = end;
        }
        self.running.push(Talk {
            conversation,
            entry,
            said: 0,
        });
        Ok(())
    }

    /// Collects the tokens of the step that was launched ahead, with another step behind it.
    fn take(&mut self, behind: &[usize]) -> Result<(), Box<dyn Error>> {
        let taken = std::mem::take(&mut self.ahead);
        if taken.is_empty() {
            return Ok(());
        }
        let rows: Vec<_> = taken.iter().map(|entry| (*entry, Vec::new())).collect();
        // From time to time a request arrives, so that no step is launched behind it.
        self.asked += 1;
        let mut preempts = || self.asked.is_multiple_of(7);
        // From time to time the step is preempted for this request.
        let mut parts = 0;
        let mut leaves = |_| {
            parts += 1;
            (self.asked + parts).is_multiple_of(5)
        };
        let leaves = (!behind.is_empty()).then_some(&mut leaves as &mut dyn FnMut(Instant) -> bool);
        let stepped = self
            .runner
            .step_each(&rows, behind, (leaves, Some(&mut preempts)));
        let tokens = match stepped {
            Ok(Stepped::Chosen(tokens)) => tokens,
            Ok(Stepped::Preempted) => {
                self.left += 1;
                self.ahead = taken;
                if self.left.is_multiple_of(4) {
                    // The rest of the step runs without the graph of its first part.
                    self.runner.reset_graph();
                }
                return Ok(());
            }
            Err(RunError::Execute(error)) if self.runner.executor().faults().disarm() => {
                return Err(error.into());
            }
            Err(error) if error.is_fatal() => return Err(error.into()),
            Err(_) => {
                self.refused += 1;
                return Ok(());
            }
        };
        for token in tokens {
            token?;
        }
        if self.runner.is_ahead() {
            self.ahead = behind.to_vec();
        }
        for talk in &mut self.running {
            talk.said += usize::from(taken.contains(&talk.entry));
        }
        for talk in self
            .running
            .iter()
            .filter(|talk| taken.contains(&talk.entry))
        {
            let alone = &self.alone[talk.conversation][talk.said];
            let said = self.said(talk.entry);
            if said != *alone {
                let (conversation, at) = (talk.conversation, talk.said);
                return Err(format!(
                    "conversation {conversation}, token {at}, in rows of {taken:?}: {said:?}, alone {alone:?}"
                )
                .into());
            }
        }
        Ok(())
    }

    fn said(&self, entry: usize) -> Step {
        let scored = self.runner.scored(entry).iter();
        let bits = scored.map(|one| (one.token, one.logprob.to_bits()));
        (self.runner.state_of(entry).token, bits.collect())
    }
}

//! A conversation with evicted pages continues with the bits that it would have had, and so does a conversation with a
//! shared prefix. Runs on any executor whose cache holds one conversation of `CONTEXT` positions, and whose steps have
//! several rows.

use std::slice;

use ganglion::kv::{Owner, PAGE, Wanted};
use ganglion::runner::{RunError, Runner};
use ganglion::sampler::Parameters;
use ganglion::tape::Ending;

pub(crate) const CONTEXT: usize = 256;
const USER: u32 = 1;
/// Neither length is a multiple of a page.
const PROMPT: usize = 75;
const SAID: usize = 41;
const STEPS: usize = 6;

/// The number of cached tokens at the start, then each token with the bits of its logits.
type Turn = (usize, Vec<(u32, Vec<u32>)>);

/// Returns the first difference.
pub(crate) fn hold(runner: &mut Runner) -> Result<(), String> {
    run(runner).map_err(|error| error.to_string())?
}

fn run(runner: &mut Runner) -> Result<Result<(), String>, RunError> {
    let vocabulary = u32::try_from(runner.shape().vocabulary).unwrap_or(u32::MAX);
    let prompt: Vec<u32> = (0..)
        .map(|at| (at * 31 + 7) % vocabulary)
        .take(PROMPT)
        .collect();
    let a = Some(Owner(1));
    let (_, first) = turn(runner, a, USER, Wanted::without_answers(&prompt), SAID + 1)?;
    // The last one was only chosen: it is prefilled with the next tokens.
    let answer = first.iter().map(|(token, _)| *token);
    let next: Vec<u32> = prompt
        .iter()
        .copied()
        .chain(answer)
        .chain([9, 8, 7])
        .collect();
    let said = PROMPT..PROMPT + SAID;
    let next = Wanted {
        tokens: &next,
        said: slice::from_ref(&said),
    };
    let (held, kept) = turn(runner, a, USER, next, STEPS)?;
    if held != PROMPT + SAID {
        return Ok(Err(format!("{held} tokens were held of {}", PROMPT + SAID)));
    }
    evict(runner)?;
    let (held, restored) = turn(runner, a, USER, next, STEPS)?;
    if held != 0 || restored != kept {
        return Ok(Err(format!(
            "{held} tokens were held; kept {kept:?}, restored {restored:?}"
        )));
    }

    // It differs from the same user's conversation within a page, and is compared with another user's.
    let mut apart = prompt[..PROMPT - 3].to_vec();
    apart.extend([5, 6]);
    let (held, shared) = turn(runner, None, USER, Wanted::without_answers(&apart), STEPS)?;
    let expected = if runner.layout().is_recurrent() {
        // The state between two chunks of the longer prompt.
        PAGE
    } else {
        PROMPT - 3
    };
    if held != expected {
        return Ok(Err(format!("{held} tokens were shared, not {expected}")));
    }
    evict(runner)?;
    let (held, alone) = turn(
        runner,
        None,
        USER + 2,
        Wanted::without_answers(&apart),
        STEPS,
    )?;
    if held != 0 || shared != alone {
        return Ok(Err(format!(
            "{held} tokens were held; shared {shared:?}, alone {alone:?}"
        )));
    }
    Ok(Ok(()))
}

/// Lets turns of another user take all pages: one takes those of a whole conversation, and others those that are left in
/// models with recurrent layers, for more states than a turn has.
fn evict(runner: &mut Runner) -> Result<(), RunError> {
    let mut join = |positions| {
        let prompt = Wanted::without_answers(&[1, 2]);
        runner.join(None, USER + 1, prompt, Parameters::default(), positions)
    };
    let mut entries = vec![join(CONTEXT)?.0];
    while let Ok((entry, _)) = join(PAGE) {
        entries.push(entry);
    }
    entries.into_iter().for_each(|entry| runner.leave(entry));
    Ok(())
}

/// Prefills a prompt in the original chunks, and answers with that many tokens.
fn turn(
    runner: &mut Runner,
    owner: Option<Owner>,
    user: u32,
    prompt: Wanted<'_>,
    count: usize,
) -> Result<Turn, RunError> {
    let parameters = Parameters {
        temperature: 0.9,
        repetition_penalty: 1.2,
        seed: 5,
        ..Parameters::default()
    };
    let all = prompt.tokens.len();
    let (entry, held) = runner.join(owner, user, prompt, parameters, all + count)?;
    let (mut at, rows) = (held, runner.rows());
    while at < all {
        let said = prompt.said.iter().find(|said| said.end > at);
        at = match said {
            Some(said) if said.contains(&at) => {
                let end = said.end.min(at + rows);
                runner.read_said(entry, &prompt.tokens[at..end], parameters, prompt.tokens)?;
                end
            }
            said => {
                let end = said
                    .map_or(all, |said| said.start)
                    .min(at + runner.prefill_chunk());
                let ending = if end == all {
                    Ending::Token
                } else {
                    Ending::Kv
                };
                runner.turn_to(entry);
                runner.prefill(&prompt.tokens[at..end], ending)?;
                end
            }
        };
    }
    // The prompt itself chose this one.
    let mut tokens = vec![(runner.token(), Vec::new())];
    while tokens.len() < count {
        let token = runner.step_rows(&[entry], false)?[0];
        let logits = runner.row_logits(1)?.into_iter().map(f32::to_bits);
        tokens.push((token, logits.collect()));
    }
    runner.leave(entry);
    Ok((held, tokens))
}

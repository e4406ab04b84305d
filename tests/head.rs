//! A head that guesses tokens: its logits are those of plain loops, and its guesses change no token. They are those of a
//! fresh conversation whatever the pages and the state of a slot have gone through.

pub(crate) mod model;
mod reference;

use std::path::Path;

use ganglion::executor::Given;
use ganglion::kv::{KvType, Owner, Wanted};
use ganglion::load::{self, Backend, KvMemory, Precision, Settings};
use ganglion::model::Checkpoint;
use ganglion::runner::{Runner, Stepped};
use ganglion::sampler::{Mask, Parameters};
use ganglion::tape::Ending;

use model::{HIDDEN, Tensors, VOCABULARY};
use reference::Head;

pub(crate) const CONTEXT: usize = 256;

fn load(model: &Path, head: bool) -> Runner {
    let checkpoint = Checkpoint::open(model).expect("it opens");
    assert!(
        matches!(checkpoint.guess, Ok(Some(_))),
        "the files have a head"
    );
    let settings = Settings {
        backend: Backend::Cpu,
        precision: Precision::F32,
        kv_type: KvType::F32.into(),
        context: CONTEXT,
        kv_memory: KvMemory::Conversations(8),
        head: if head {
            load::Head::Required
        } else {
            load::Head::Off
        },
        rows: 8,
        threads: 2,
        launch_ahead: true,
        ..Settings::default()
    };
    load::runner(&checkpoint, &settings, &mut |_, _| {}).expect("it fits")
}

fn with_head() -> Runner {
    let folder = tempfile::tempdir().expect("a temporary directory");
    load(&model::safetensors(folder.path()), true)
}

pub(crate) fn prompt(length: u32) -> Vec<u32> {
    (0..length).map(|at| (at * 37 + 11) % 512).collect()
}

/// Reads a prompt, and returns its slot and the tokens that the cache held.
fn begin_of(runner: &mut Runner, user: u32, prompt: &[u32]) -> (usize, usize) {
    let parameters = Parameters {
        temperature: 0.7,
        seed: 5,
        ..Parameters::default()
    };
    let wanted = Wanted::without_answers(prompt);
    let joined = runner.join(Some(Owner(user.into())), user, wanted, parameters, CONTEXT);
    let (slot, cached) = joined.expect("it joins");
    runner.prefill_all(&prompt[cached..]).expect("it is read");
    (slot, cached)
}

fn begin(runner: &mut Runner, user: u32, prompt: &[u32]) -> usize {
    begin_of(runner, user, prompt).0
}

/// Runs a step of a slot with guesses, and returns the chosen tokens.
pub(crate) fn step(runner: &mut Runner, slot: usize, guesses: &[u32]) -> Vec<u32> {
    let given = guesses.iter().copied().map(Given::Guessed).collect();
    let stepped = runner.step_each(&[(slot, given)], &[], (None, None));
    match stepped.expect("it steps") {
        Stepped::Chosen(mut each) => each.remove(0).expect("it has logits"),
        Stepped::Preempted => unreachable!("nothing preempts it"),
    }
}

/// The guesses of a slot, and the bits of the logits of all passes.
pub(crate) fn guess(runner: &mut Runner, slot: usize) -> (Vec<u32>, Vec<u32>) {
    let before = runner.state_of(slot);
    let guesses = runner
        .head_guesses(&[(slot, 4)])
        .expect("it guesses")
        .remove(0);
    assert_eq!(runner.state_of(slot), before);
    assert_eq!(guesses.len(), 4);
    let logits = runner.head_logits().expect("they are there");
    (guesses, logits.into_iter().map(f32::to_bits).collect())
}

fn greatest(logits: &[f64]) -> u32 {
    let token = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b]));
    u32::try_from(token.expect("there are some")).expect("tokens are small")
}

/// The logits of three passes, in the form of either file: of the usual head, of one with an embedding of its own, and of the
/// first one of two layers.
#[test]
fn logits_are_those_of_plain_loops() {
    for tensors in [
        model::tensors(),
        model::with_own_embedding(),
        model::with_two_layers(),
    ] {
        let folder = tempfile::tempdir().expect("a temporary directory");
        for model in [
            model::safetensors_of(folder.path(), tensors.clone()),
            model::gguf_of(folder.path(), tensors.clone()),
        ] {
            compare(&model, &tensors);
        }
    }
}

/// Compares the logits of three passes with those of plain loops.
fn compare(model: &Path, tensors: &Tensors) {
    let runner = &mut load(model, true);
    let mut tokens = prompt(70);
    let (owner, greedy) = (Some(Owner(1)), Parameters::default());
    let wanted = Wanted::without_answers(&tokens);
    let joined = runner.join(owner, 1, wanted, greedy, CONTEXT);
    let (slot, _) = joined.expect("it joins");
    // In two runs.
    let first = runner.prefill(&tokens[..64], Ending::Kv);
    first.expect("it is read");
    runner.prefill_all(&tokens[64..]).expect("it is read");
    tokens.push(runner.state_of(slot).token);
    for guesses in [&[][..], &[3, 4], &[]] {
        tokens.extend(step(runner, slot, guesses));
    }
    let guesses = runner
        .head_guesses(&[(slot, 3)])
        .expect("it guesses")
        .remove(0);
    let found = runner.head_logits().expect("they are there");
    assert_eq!(found.len(), 3 * VOCABULARY);
    runner.leave(slot);

    // The hidden states of all positions but the last, which has not run.
    let (last, ran) = tokens.split_last().expect("there are tokens");
    let wanted = Wanted::without_answers(ran);
    let joined = runner.join(Some(Owner(2)), 2, wanted, greedy, CONTEXT);
    assert_eq!(joined.expect("it joins").1, 0, "it is another user's");
    let mut hidden: Vec<Vec<f64>> = vec![vec![0.0; HIDDEN]];
    let each = |logits: &[f32]| {
        hidden.push(logits[..HIDDEN].iter().copied().map(f64::from).collect());
    };
    runner.logits(ran, each).expect("it is read");

    let mut head = Head::new(tensors);
    for (token, before) in ran.iter().zip(&hidden) {
        head.run(*token, before);
    }
    let (mut token, mut before) = (*last, hidden.pop().expect("there are states"));
    for (pass, found) in found.chunks_exact(VOCABULARY).enumerate() {
        let row = head.run(token, &before);
        let far = row.logits.iter().zip(found);
        let far = far.map(|(exact, found)| (exact - f64::from(*found)).abs());
        let far: Vec<_> = far.collect();
        #[allow(clippy::cast_precision_loss)] // logits are few
        let mean = far.iter().sum::<f64>() / far.len() as f64;
        let most = far.iter().copied().fold(0.0, f64::max);
        println!("{}, pass {pass}: {mean:e}, {most:e}", model.display());
        assert!(mean < 1e-4 && most < 1e-3, "{mean} in the mean, {most}");
        token = greatest(&row.logits);
        assert_eq!(guesses[pass], token, "pass {pass}");
        before = row.hidden;
    }
}

/// Neither the head nor its guesses change a token, or a bit of the logits that it is chosen from.
#[test]
fn guesses_of_a_head_change_no_token() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let model = model::safetensors(folder.path());
    let alone = |runner: &mut Runner| {
        let slot = begin(runner, 1, &prompt(60));
        let mut said = vec![(runner.state_of(slot).token, Vec::new())];
        for _ in 0..90 {
            let token = step(runner, slot, &[])[0];
            said.push((token, runner.row_logits(1).expect("they are there")));
        }
        said
    };
    let expected = alone(&mut load(&model, false));
    let runner = &mut load(&model, true);
    assert_eq!(alone(runner), expected, "with a head");

    let slot = begin(runner, 2, &prompt(60));
    let (mut said, mut wrong) = (1, 0);
    while said < expected.len() {
        let mut guesses = runner
            .head_guesses(&[(slot, 3)])
            .expect("it guesses")
            .remove(0);
        // A random head is hardly ever right.
        if said % 4 == 0 {
            let right = expected[said..].iter().take(2).map(|(token, _)| *token);
            guesses = right.collect();
        }
        let chosen = step(runner, slot, &guesses);
        wrong += usize::from(chosen.len() <= guesses.len());
        let logits = runner
            .row_logits(1 + guesses.len())
            .expect("they are there");
        for (token, logits) in chosen.iter().zip(logits.chunks_exact(VOCABULARY)) {
            if let Some(expected) = expected.get(said) {
                assert!((token, logits) == (&expected.0, &expected.1[..]), "{said}");
            }
            said += 1;
        }
    }
    assert!(wrong > 5, "{wrong}");
}

/// After a shared prefix, a rewind, wrong guesses, steps launched ahead, and among other slots.
#[test]
fn guesses_are_those_of_a_fresh_conversation() {
    let fresh = |prompt: &[u32]| {
        let runner = &mut with_head();
        let slot = begin(runner, 1, prompt);
        guess(runner, slot)
    };
    let (first, mut second) = (prompt(100), prompt(90));
    second.extend([3, 4, 5]);
    let expected = [&first, &second].map(|prompt| fresh(prompt));

    let runner = &mut with_head();
    let slot = begin(runner, 1, &first);
    assert_eq!(guess(runner, slot), expected[0]);
    assert_eq!(guess(runner, slot), expected[0], "again");
    runner.leave(slot);
    // The second one has pages of the first, and begins at a checkpoint with its hidden state.
    let (slot, cached) = begin_of(runner, 1, &second);
    assert_eq!(cached, 64);
    assert_eq!(guess(runner, slot), expected[1], "of a shared prefix");
    runner.leave(slot);
    runner.rewind(Owner(1), 70).expect("it does not run");
    let slot = begin(runner, 1, &first);
    assert_eq!(guess(runner, slot), expected[0], "after a rewind");

    // Each number of rows has the same bits.
    let others = [2, 3].map(|user| begin(runner, user, &second));
    let wanted = [(others[0], 1), (slot, 2), (others[1], 2)];
    let guesses = runner.head_guesses(&wanted).expect("they guess");
    let alone = [
        &expected[1].0[..1],
        &expected[0].0[..2],
        &expected[1].0[..2],
    ];
    assert_eq!(guesses, alone);
    // Eight rows have no room for another slot.
    let wanted = [(slot, 9), wanted[0]];
    let guesses = runner.head_guesses(&wanted).expect("they guess");
    assert_eq!(guesses[0].len(), 7);
    assert_eq!(guesses[1], Vec::<u32>::new());
}

/// The keys that a step has left for a wrong guess, or for a step launched ahead, are not seen.
#[test]
fn guesses_after_steps_are_those_of_single_steps() {
    let runner = &mut with_head();
    let tokens = prompt(90);
    let slot = begin(runner, 1, &tokens);
    for _ in 0..12 {
        step(runner, slot, &[]);
    }
    let expected = (runner.state_of(slot), guess(runner, slot));
    runner.leave(slot);

    let slot = begin(runner, 2, &tokens);
    while runner.state_of(slot).position < expected.0.position {
        let left = expected.0.position - runner.state_of(slot).position;
        let wrong: Vec<u32> = [500, 501, 502].into_iter().take(left - 1).collect();
        runner.head_guesses(&[(slot, 5)]).expect("it guesses");
        step(runner, slot, &wrong);
    }
    assert_eq!((runner.state_of(slot), guess(runner, slot)), expected);
    runner.leave(slot);

    let slot = begin(runner, 3, &tokens);
    for at in 0..12 {
        runner.step_rows(&[slot], at < 11).expect("it steps");
        let ahead = runner.is_ahead();
        let guesses = runner.head_guesses(&[(slot, 4)]).expect("it guesses");
        assert_eq!(guesses[0].is_empty(), ahead, "in step {at}");
    }
    assert_eq!((runner.state_of(slot), guess(runner, slot)), expected);
}

/// A caller can end the passes. The guesses so far are kept, and later passes guess the same tokens.
#[test]
fn passes_end_early() {
    let runner = &mut with_head();
    let slot = begin(runner, 1, &prompt(40));
    let expected = guess(runner, slot);
    for (most, passes) in (0..=4).zip(0..) {
        let (before, mut calls) = (runner.graph().counters().launches, 0);
        let mut is_over = || {
            calls += 1;
            calls > most
        };
        let guesses = runner.head_guesses_until(&[(slot, 4)], &mut is_over);
        assert_eq!(guesses.expect("it guesses"), [&expected.0[..most]]);
        let launches = runner.graph().counters().launches - before;
        assert_eq!(launches, passes, "{most} guesses");
    }
    assert_eq!(guess(runner, slot), expected);
}

/// A pass is recorded once for each number of rows, and replayed.
#[test]
fn passes_are_recorded_once() {
    let runner = &mut with_head();
    let slots = [1, 2].map(|user| begin(runner, user, &prompt(40)));
    let mut round = || {
        for wanted in [&[(slots[0], 2)][..], &[(slots[0], 2), (slots[1], 4)]] {
            runner.head_guesses(wanted).expect("they guess");
        }
        runner.graph().counters()
    };
    round();
    let before = round();
    let after = round();
    assert_eq!(after.recordings, before.recordings);
    assert_eq!(after.launches, before.launches + 6);
}

/// A mask limits the chosen token, and no guess. No pass waits for one.
#[test]
fn a_mask_changes_no_guess() {
    let runner = &mut with_head();
    let slot = begin(runner, 1, &prompt(40));
    let expected = guess(runner, slot);
    let mask = Mask::only(7, VOCABULARY);
    runner.guide(slot, Some(&mask)).expect("it is taken");
    assert_eq!(guess(runner, slot), expected);
    assert_eq!(step(runner, slot, &expected.0), [7]);
    // The mask after this token has not arrived.
    guess(runner, slot);
    runner.guide(slot, Some(&mask)).expect("it is taken");
    assert_eq!(step(runner, slot, &[]), [7]);
}

#[test]
fn there_are_no_guesses_where_none_can_be_used() {
    let runner = &mut with_head();
    let slot = begin(runner, 2, &prompt(254));
    let guesses = runner.head_guesses(&[(slot, 3)]).expect("it guesses");
    assert_eq!(guesses[0].len(), 1, "two positions are left");
    runner.leave(slot);

    let folder = tempfile::tempdir().expect("a temporary directory");
    let runner = &mut load(&model::safetensors(folder.path()), false);
    assert!(!runner.has_head());
    let slot = begin(runner, 1, &prompt(40));
    let guesses = runner.head_guesses(&[(slot, 3)]).expect("nothing runs");
    assert_eq!(guesses, [Vec::<u32>::new()]);
}

//! Conversations that step together have the bits that each has alone, whichever others join or leave.
//! tests/gpu/rows.rs checks the same on a GPU.

use std::path::Path;

use ganglion::graph::{GraphOptions, Mode};
use ganglion::kv::{KvType, KvTypes, Owner, Reuse, Wanted};
use ganglion::load::{self, Backend, KvMemory, Settings};
use ganglion::model::Checkpoint;
use ganglion::runner::Runner;
use ganglion::sampler::{Mask, Parameters, Promise, Scored};

use crate::support::{few_states, guessing, joining, preempted, restored};

const PROMPTS: [u32; 8] = [1, 2, 9, 63, 64, 65, 100, 130];
const TOGETHER: [&[usize]; 5] = [
    &[0, 1, 2, 3, 4, 5, 6, 7],
    &[6, 2],
    &[4, 2, 5, 3, 7],
    &[7],
    &[3, 0, 1],
];

/// The types of K and V: keys are floats, values are quants.
const MIXED: KvTypes = KvTypes::of(KvType::F16, KvType::Q8_0);

/// A token, and the bits of the logits that it was chosen from.
type Step = (u32, Vec<u32>);

/// The model of most tests.
const MODEL: &str = "tiny-qwen3";
/// A model that continues with more than the residual stream.
const WITH_INPUTS: &str = "tiny-gemma4";
/// Models with recurrent states.
const RECURRENT: [&str; 2] = ["tiny-qwen3_5", "tiny-lfm2"];

fn load(types: impl Into<KvTypes>) -> Runner {
    load_with(MODEL, types.into(), false)
}

/// Some steps are launched ahead.
fn load_with(model: &str, types: KvTypes, launch_ahead: bool) -> Runner {
    load_for(model, types, launch_ahead, PROMPTS.len())
}

/// The cache holds that many conversations.
fn load_for(model: &str, types: KvTypes, launch_ahead: bool, conversations: usize) -> Runner {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let model = models.join(model);
    let checkpoint = Checkpoint::open(&model).expect("the golden models open");
    let settings = Settings {
        backend: Backend::Cpu,
        kv_type: types.into(),
        context: 160,
        kv_memory: KvMemory::Conversations(conversations),
        rows: PROMPTS.len(),
        threads: 2,
        launch_ahead,
        // A step is cut at every point where it can be preempted.
        graph: GraphOptions {
            part_bytes: 1,
            ..GraphOptions::default()
        },
        ..Settings::default()
    };
    load::runner(&checkpoint, &settings, &mut |_, _| {}).expect("it fits")
}

/// Starts all conversations, every other one sampled, and returns their slots.
fn begin(runner: &mut Runner) -> Vec<usize> {
    let begin_one = |(user, length): (u32, u32)| {
        let parameters = Parameters {
            #[allow(clippy::cast_precision_loss)] // 0 or 1
            temperature: (user % 2) as f32,
            repetition_penalty: 1.1,
            seed: user.into(),
            ..Parameters::default()
        };
        read(runner, user, length, parameters)
    };
    (0..).zip(PROMPTS).map(begin_one).collect()
}

/// Starts a conversation of its own user, and returns its slot.
fn read(runner: &mut Runner, user: u32, length: u32, parameters: Parameters) -> usize {
    let prompt: Vec<u32> = (0..length)
        .map(|at| (at * 37 + 11 * user + 5) % 512)
        .collect();
    let owner = Some(Owner(user.into()));
    let cached = runner
        .begin(owner, user, &prompt, parameters)
        .expect("it begins");
    runner.prefill_all(&prompt[cached..]).expect("it is read");
    runner.slot()
}

fn step(runner: &mut Runner, entries: &[usize]) -> Vec<Step> {
    let tokens = runner.step_rows(entries, false).expect("they step");
    let logits = runner.row_logits(entries.len()).expect("they are there");
    let rows = logits.chunks_exact(runner.shape().vocabulary);
    let bits = rows.map(|row| row.iter().map(|logit| logit.to_bits()).collect());
    tokens.into_iter().zip(bits).collect()
}

#[test]
fn conversations_that_step_together_have_the_bits_of_each_alone() {
    for types in [KvType::F16.into(), KvType::Q8_0.into(), MIXED] {
        hold(MODEL, types);
    }
    for model in [WITH_INPUTS, RECURRENT[0], RECURRENT[1]] {
        hold(model, KvType::F16.into());
    }
}

/// Each number of rows has its own recording, which stays valid when another is recorded.
#[test]
fn each_number_of_rows_is_recorded_once() {
    let mut runner = load(KvType::F16);
    let entries = begin(&mut runner);
    let mut round = || {
        for rows in [1, 2, 4, 8, 2] {
            step(&mut runner, &entries[..rows]);
        }
        runner.graph().counters()
    };
    // Larger steps move their working memory.
    round();
    let before = round();
    let after = round();
    assert_eq!(after.recordings, before.recordings);
    assert_eq!(after.launches, before.launches + 5);
}

/// Known tokens run as rows of one step, with the bits of one step each.
#[test]
fn forced_tokens_in_one_step_have_the_bits_of_a_step_each() {
    const FORCED: [u32; 7] = [17, 400, 3, 3, 250, 77, 5];
    let ways = [
        (MODEL, KvType::F16, &FORCED[..]),
        (MODEL, KvType::Q8_0, &FORCED[..2]),
        (RECURRENT[0], KvType::F16, &FORCED[..]),
        (RECURRENT[1], KvType::F16, &FORCED[..]),
    ];
    for (model, kv_type, forced) in ways {
        let load = |kv_type: KvType| load_with(model, kv_type.into(), false);
        // Each counts for the penalty and the random numbers, like a chosen one.
        let drawn = Parameters {
            temperature: 0.9,
            repetition_penalty: 1.2,
            seed: 5,
            ..Parameters::default()
        };
        let mut runner = load(kv_type);
        let entry = read(&mut runner, 9, 62, drawn);
        let next = runner.step_forced(entry, forced).expect("they step");
        let at_once = runner.row_logits(1 + forced.len());
        let at_once = at_once.expect("they are there");
        let after = step(&mut runner, &[entry]);

        let mut runner = load(kv_type);
        let entry = read(&mut runner, 9, 62, drawn);
        let rows = at_once.chunks_exact(runner.shape().vocabulary);
        for (row, at_once) in rows.take(1 + forced.len()).enumerate() {
            let (token, bits) = step(&mut runner, &[entry]).remove(0);
            let same = at_once.iter().map(|logit| logit.to_bits()).eq(bits);
            assert!(same, "{model}, {} cache, row {row}", kv_type.name());
            match forced.get(row) {
                Some(token) => runner.post(*token),
                None => assert_eq!(token, next),
            }
        }
        assert_eq!(step(&mut runner, &[entry]), after);
    }
}

/// A step with guesses chooses the tokens of as many steps, and undoes what follows a wrong guess.
#[test]
fn conversations_with_guesses_have_the_bits_of_each_alone() {
    let ways = [
        (MODEL, KvType::F16),
        (MODEL, KvType::Q8_0),
        (WITH_INPUTS, KvType::F16),
        (RECURRENT[0], KvType::F16),
        (RECURRENT[1], KvType::F16),
    ];
    for (model, kv_type) in ways {
        for launch_ahead in [false, true] {
            let mut runner = load_with(model, kv_type.into(), launch_ahead);
            let name = format!("{model}, {} cache, {launch_ahead}", kv_type.name());
            let held = guessing::hold(&mut runner);
            let guesses = held.unwrap_or_else(|differs| panic!("{name}: {differs}"));
            println!("{name}: {guesses:?}");
            assert!(guesses.right > 50 && guesses.wrong > 50, "{guesses:?}");
            assert!(
                guesses.masked > 30 && guesses.after_forced > 10,
                "{guesses:?}"
            );
        }
    }
}

/// A guided conversation chooses by its mask alone. If the mask is late, its row repeats with the same bits, and the
/// other conversation continues.
#[test]
fn a_guided_conversation_waits_for_its_mask() {
    let mask = |step: u32| {
        Mask::new(
            (0..16)
                .map(|word| 0x0101_0101 << ((step + word) % 8))
                .collect(),
        )
    };
    let scored = Parameters {
        temperature: 1.0,
        logprobs: Some(3),
        ..Parameters::default()
    };
    let run = |model: &str, late: u32| {
        let mut runner = load_with(model, KvType::F16.into(), false);
        let entries =
            [(1, 40), (2, 63)].map(|(user, length)| read(&mut runner, user, length, scored));
        let [free, guided] = entries;
        runner.guide(guided, Some(&mask(0))).expect("it is taken");
        let (mut steps, mut other) = (Vec::new(), Vec::new());
        for step_number in 0..12 {
            if step_number % 3 == 1 {
                for _ in 0..late {
                    let before = runner.state_of(guided);
                    other.push(step(&mut runner, &entries).remove(0));
                    assert_eq!(runner.state_of(guided), before);
                }
            }
            let (promise, promised) = Promise::new();
            let bound = match step_number {
                0 => Ok(()),
                // The mask is made during the step.
                2 | 5 | 8 => runner.guide_later(guided, promise),
                _ => runner.guide(guided, Some(&mask(step_number))),
            };
            bound.expect("it is taken");
            let making = std::thread::spawn(move || promised.keep(mask(step_number)));
            let before = runner.state_of(guided);
            let mut both = step(&mut runner, &entries);
            making.join().expect("it is made");
            // On a busy machine the thread may make the mask after the step has stopped waiting for it.
            if runner.state_of(guided) == before {
                other.push(both.remove(0));
                both = step(&mut runner, &entries);
            }
            let (token, bits) = both.remove(1);
            assert!(
                mask(step_number).allows(token),
                "{token} in step {step_number}"
            );
            other.extend(both);
            let logits: Vec<f32> = bits.iter().map(|bits| f32::from_bits(*bits)).collect();
            let scored = runner.scored(guided).to_vec();
            let of_all: f64 = logits.iter().map(|logit| f64::from(*logit).exp()).sum();
            for Scored { token, logprob } in &scored {
                let to_be = f64::from(logits[*token as usize]) - of_all.ln();
                assert!((f64::from(*logprob) - to_be).abs() < 1e-4);
            }
            let greatest = logits.iter().copied().fold(f32::MIN, f32::max);
            assert_eq!(scored.len(), 4);
            assert_eq!(
                (scored[0].token, logits[scored[1].token as usize]),
                (token, greatest)
            );
            steps.push((token, bits));
        }
        assert_eq!(runner.scored(free).len(), 4);
        // A dropped promise is a mask that never arrives.
        runner
            .guide_later(guided, Promise::new().0)
            .expect("it is taken");
        let before = runner.state_of(guided);
        step(&mut runner, &entries);
        assert_eq!(runner.state_of(guided), before);
        (steps, other)
    };
    for model in [MODEL, RECURRENT[0], RECURRENT[1]] {
        let (steps, other) = run(model, 0);
        let (late, longer) = run(model, 2);
        assert!(
            steps == late,
            "{model}: a mask that comes late changes nothing"
        );
        assert!(
            longer
                .iter()
                .zip(&other)
                .all(|(with, without)| with == without),
            "{model}: nor does it change the other conversation"
        );
    }
}

/// A conversation that lost its pages, or shares a prefix, has the bits of one that did not.
#[test]
fn a_restored_or_shared_prefix_changes_no_bits() {
    for types in KvTypes::all() {
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tiny-qwen3");
        let checkpoint = Checkpoint::open(&model).expect("the golden models open");
        let settings = Settings {
            backend: Backend::Cpu,
            kv_type: types.into(),
            context: restored::CONTEXT,
            rows: 8,
            reuse: Reuse::Exact,
            threads: 2,
            ..Settings::default()
        };
        let runner = load::runner(&checkpoint, &settings, &mut |_, _| {});
        let held = restored::hold(&mut runner.expect("it fits"));
        held.unwrap_or_else(|differs| panic!("{} cache: {differs}", types.name()));
    }
}

#[test]
fn conversations_that_join_and_leave_while_a_step_is_ahead_have_the_bits_of_each_alone() {
    let ways = [
        (MODEL, KvType::F16, Mode::FullDecodeOnly),
        (MODEL, KvType::Q8_0, Mode::FullDecodeOnly),
        (MODEL, KvType::F16, Mode::None),
        (RECURRENT[0], KvType::F16, Mode::FullDecodeOnly),
        (RECURRENT[1], KvType::F16, Mode::FullDecodeOnly),
    ];
    for (model, kv_type, mode) in ways {
        let mut runner = load_with(model, kv_type.into(), true);
        runner.set_graph_mode(mode);
        let name = format!("{model}, {} cache, {}", kv_type.name(), mode.name());
        let held = joining::hold(&mut runner);
        let (others, left) = held.unwrap_or_else(|differs| panic!("{name}: {differs}"));
        assert!(others > 8, "{others} steps were behind others");
        assert!(left > 8 || mode == Mode::None, "{left} were left");
    }
}

/// A turn that has lost its recurrent state continues with the same bits.
#[test]
fn more_turns_than_states_have_the_bits_of_each_alone() {
    for model in RECURRENT {
        for launch_ahead in [false, true] {
            let mut runner = load_for(model, KvType::F16.into(), launch_ahead, 16);
            let lost = few_states::hold(&mut runner);
            let lost = lost.unwrap_or_else(|differs| panic!("{model}, {launch_ahead}: {differs}"));
            println!("{model}, ahead {launch_ahead}: {lost:?}");
            assert!(lost.idle > 8 && lost.continued > 8, "{lost:?}");
        }
    }
}

#[test]
fn preempted_prompts_have_the_bits_of_others() {
    for (model, kv_type) in [
        (MODEL, KvType::F16),
        (MODEL, KvType::Q8_0),
        (WITH_INPUTS, KvType::F16),
        (RECURRENT[0], KvType::F16),
        (RECURRENT[1], KvType::F16),
    ] {
        let held = preempted::hold(&mut load_with(model, kv_type.into(), false));
        held.unwrap_or_else(|differs| panic!("{model}, {} cache: {differs}", kv_type.name()));
    }
}

/// A prompt that continues a shorter one, or an answer, has the bits of a prompt that nothing preceded.
#[test]
fn a_recurrent_prompt_continues_with_the_bits_of_a_whole_one() {
    let prompt: Vec<u32> = (0..150).map(|at| (at * 37 + 5) % 512).collect();
    for model in RECURRENT {
        let read = |runner: &mut Runner, prompt: &[u32], said: &[std::ops::Range<usize>]| {
            let wanted = Wanted {
                tokens: prompt,
                said,
            };
            let joined = runner.join(None, 0, wanted, Parameters::default(), 160);
            let (slot, cached) = joined.expect("it joins");
            runner.turn_to(slot);
            runner.prefill_all(&prompt[cached..]).expect("it is read");
            (slot, cached)
        };
        let mut whole = load_with(model, KvType::F16.into(), false);
        let (slot, _) = read(&mut whole, &prompt, &[]);
        let expected = step(&mut whole, &[slot]);

        let mut runner = load_with(model, KvType::F16.into(), false);
        for (length, least) in [(100, 0), (130, 64), (150, 64)] {
            let (slot, cached) = read(&mut runner, &prompt[..length], &[]);
            assert!(
                cached >= least && cached.is_multiple_of(64),
                "{model}: {cached}"
            );
            if length == 150 {
                assert!(step(&mut runner, &[slot]) == expected, "{model}");
            }
            runner.leave(slot);
        }

        // An answer, and the prompt after it: its state is stored at its end.
        let mut runner = load_with(model, KvType::F16.into(), false);
        let (slot, _) = read(&mut runner, &prompt[..70], &[]);
        let said: Vec<u32> = (0..9)
            .map(|_| {
                let token = runner.token();
                step(&mut runner, &[slot]);
                token
            })
            .collect();
        runner.leave(slot);
        let next = [&prompt[..70], &said, &prompt[..40]].concat();
        let answer = 70..79;
        let (slot, cached) = read(&mut runner, &next, std::slice::from_ref(&answer));
        assert_eq!(cached, 79, "{model}");
        let continued = step(&mut runner, &[slot]);
        let mut fresh = load_with(model, KvType::F16.into(), false);
        let (slot, _) = read(&mut fresh, &prompt[..70], &[]);
        for _ in 0..9 {
            step(&mut fresh, &[slot]);
        }
        fresh.prefill_all(&prompt[..40]).expect("it is read");
        assert!(step(&mut fresh, &[slot]) == continued, "{model}");
    }
}

fn hold(model: &str, types: KvTypes) {
    let mut runner = load_with(model, types, false);
    let entries = begin(&mut runner);
    let mut together = vec![Vec::<Step>::new(); PROMPTS.len()];
    for conversations in TOGETHER.iter().cycle().take(3 * TOGETHER.len()) {
        let rows: Vec<usize> = conversations.iter().map(|at| entries[*at]).collect();
        for (conversation, step) in conversations.iter().zip(step(&mut runner, &rows)) {
            together[*conversation].push(step);
        }
    }
    let mut runner = load_with(model, types, false);
    let entries = begin(&mut runner);
    for (conversation, together) in together.iter().enumerate() {
        for (index, together) in together.iter().enumerate() {
            let alone = step(&mut runner, &entries[conversation..=conversation]);
            assert!(
                alone[0] == *together,
                "{model}, {} cache, conversation {conversation}, step {index}: {} alone, {} together",
                types.name(),
                alone[0].0,
                together.0
            );
        }
    }
}

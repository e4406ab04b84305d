//! An assistant of Gemma 4: its logits are those of transformers, and its guesses change no token. They are those of a fresh
//! conversation whatever a slot has gone through.

pub(crate) mod model;

use std::path::Path;

use ganglion::kv::{KvType, Owner, Wanted};
use ganglion::load::{self, Backend, Head, KvMemory, LoadError, OpenDraft, Precision, Settings};
use ganglion::model::{AssistantMismatch, Checkpoint};
use ganglion::runner::Runner;
use ganglion::sampler::Parameters;
use serde::Deserialize;

use crate::head::{CONTEXT, guess, prompt, step};
use model::golden;

const VOCABULARY: usize = 512;

fn settings(assistant: Option<&Path>) -> Settings {
    Settings {
        backend: Backend::Cpu,
        precision: Precision::F32,
        kv_type: KvType::F32.into(),
        context: CONTEXT,
        kv_memory: KvMemory::Conversations(8),
        draft: assistant.map(Path::to_owned),
        rows: 8,
        threads: 2,
        launch_ahead: true,
        ..Settings::default()
    }
}

fn load(model: &Path, settings: &Settings) -> Result<Runner, LoadError> {
    let checkpoint = Checkpoint::open(model)?;
    let draft = OpenDraft::unchecked(model, settings)?;
    let loaded =
        load::runner_with_draft(&checkpoint, settings, draft.as_ref(), None, &mut |_, _| {})?;
    assert!(loaded.draft.is_none(), "an assistant has no runner");
    Ok(loaded.runner)
}

fn with(assistant: Option<&Path>) -> Runner {
    let runner = load(&golden("tiny-gemma4"), &settings(assistant)).expect("it fits");
    assert_eq!(runner.has_assistant(), assistant.is_some());
    runner
}

fn begin(runner: &mut Runner, user: u32, prompt: &[u32], parameters: Parameters) -> usize {
    let wanted = Wanted::without_answers(prompt);
    let owner = Some(Owner(user.into()));
    let (slot, cached) = runner
        .join(owner, user, wanted, parameters, CONTEXT)
        .expect("it joins");
    runner.prefill_all(&prompt[cached..]).expect("it is read");
    slot
}

#[derive(Deserialize)]
struct Golden {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    input_ids: Vec<u32>,
    chosen: u32,
    guesses: Vec<u32>,
    logits: Vec<Vec<f32>>,
}

/// The logits of four passes, in the form of either file.
#[test]
fn logits_are_those_of_transformers() {
    let text = std::fs::read_to_string(golden("assistant/golden.json")).expect("golden data");
    let Golden { cases } = serde_json::from_str(&text).expect("golden data is well formed");
    let folder = tempfile::tempdir().expect("a temporary directory");
    for assistant in [golden("assistant"), model::gguf(folder.path())] {
        let runner = &mut with(Some(&assistant));
        for (user, case) in (1..).zip(&cases) {
            let slot = begin(runner, user, &case.input_ids, Parameters::default());
            assert_eq!(runner.state_of(slot).token, case.chosen);
            let wanted = [(slot, case.guesses.len())];
            let guesses = runner.head_guesses(&wanted).expect("it guesses").remove(0);
            let found = runner.head_logits().expect("they are there");
            assert_eq!(found.len(), case.guesses.len() * VOCABULARY);
            let rows = case.logits.iter().zip(found.chunks_exact(VOCABULARY));
            for (pass, (exact, found)) in rows.enumerate() {
                let far = exact.iter().zip(found).map(|(a, b)| (a - b).abs());
                let most = far.fold(0.0, f32::max);
                println!(
                    "{}, after {}, pass {pass}: {most:e}",
                    assistant.display(),
                    case.input_ids.len()
                );
                assert!(most < 1e-3, "{most}");
            }
            assert_eq!(guesses, case.guesses);
            runner.leave(slot);
        }
    }
}

/// Neither the assistant nor its guesses change a token, or a bit of the logits that it is chosen from.
#[test]
fn guesses_of_an_assistant_change_no_token() {
    let sampled = Parameters {
        temperature: 0.7,
        seed: 5,
        ..Parameters::default()
    };
    let alone = |runner: &mut Runner| {
        let slot = begin(runner, 1, &prompt(60), sampled);
        let mut said = vec![(runner.state_of(slot).token, Vec::new())];
        for _ in 0..90 {
            let token = step(runner, slot, &[])[0];
            said.push((token, runner.row_logits(1).expect("they are there")));
        }
        said
    };
    let expected = alone(&mut with(None));
    let runner = &mut with(Some(&golden("assistant")));
    assert_eq!(alone(runner), expected, "with an assistant");
    let slot = begin(runner, 2, &prompt(60), sampled);
    let mut said = 1;
    while said < expected.len() {
        let guesses = runner
            .head_guesses(&[(slot, 3)])
            .expect("it guesses")
            .remove(0);
        assert_eq!(guesses.len(), 3);
        let chosen = step(runner, slot, &guesses);
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
}

/// An assistant that knows the answer saves steps.
#[test]
fn right_guesses_are_accepted() {
    let greedy = Parameters::default();
    let runner = &mut with(None);
    let slot = begin(runner, 1, &prompt(30), greedy);
    let mut expected = vec![runner.state_of(slot).token];
    expected.extend((0..60).map(|_| step(runner, slot, &[])[0]));

    let folder = tempfile::tempdir().expect("a temporary directory");
    let runner = &mut with(Some(&model::following(folder.path(), &expected)));
    let slot = begin(runner, 1, &prompt(30), greedy);
    let (mut said, mut accepted) = (vec![runner.state_of(slot).token], 0);
    while said.len() < expected.len() {
        let guesses = runner
            .head_guesses(&[(slot, 3)])
            .expect("it guesses")
            .remove(0);
        let chosen = step(runner, slot, &guesses);
        accepted += chosen.len() - 1;
        said.extend(chosen);
    }
    assert_eq!(said[..expected.len()], expected);
    assert!(accepted > 20, "{accepted}");
}

/// After a shared prefix, wrong guesses, steps launched ahead, and among other slots.
#[test]
fn guesses_are_those_of_a_fresh_conversation() {
    let greedy = Parameters::default();
    let assistant = golden("assistant");
    let tokens = prompt(90);
    let runner = &mut with(Some(&assistant));
    let slot = begin(runner, 1, &tokens, greedy);
    let first = guess(runner, slot);
    assert_eq!(guess(runner, slot), first, "again");
    for _ in 0..12 {
        step(runner, slot, &[]);
    }
    let expected = (runner.state_of(slot), guess(runner, slot));
    runner.leave(slot);

    let slot = begin(runner, 1, &tokens, greedy);
    assert_eq!(guess(runner, slot), first, "of a cached prompt");
    let other = begin(runner, 2, &prompt(40), greedy);
    let of_other = guess(runner, other);
    while runner.state_of(slot).position < expected.0.position {
        let left = expected.0.position - runner.state_of(slot).position;
        let wrong: Vec<u32> = [500, 501, 502].into_iter().take(left - 1).collect();
        runner.head_guesses(&[(slot, 5)]).expect("it guesses");
        step(runner, slot, &wrong);
    }
    assert_eq!((runner.state_of(slot), guess(runner, slot)), expected);
    assert_eq!(guess(runner, other), of_other, "after steps of another");
    let wanted = [(other, 2), (slot, 3)];
    let guesses = runner.head_guesses(&wanted).expect("they guess");
    let alone = [&of_other.0[..2], &expected.1.0[..3]];
    assert_eq!(guesses, alone);
    runner.leave(other);
    runner.leave(slot);

    let slot = begin(runner, 3, &tokens, greedy);
    for at in 0..12 {
        runner.step_rows(&[slot], at < 11).expect("it steps");
    }
    assert_eq!((runner.state_of(slot), guess(runner, slot)), expected);
}

/// An assistant of another model is refused with the reason, also where the model is one that it cannot serve.
#[test]
fn an_assistant_of_another_model_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let assistant = model::gguf(folder.path());
    let wider = folder.path().join("wider.gguf");
    let mut file = model::writer(64);
    // The matrices say the same.
    file.remove("gemma4-assistant.embedding_length_out")
        .u32("gemma4-assistant.embedding_length_out", 128);
    std::fs::write(&wider, file.file()).expect("it is written");

    let refused = |model: &str, assistant: &Path| {
        load(&golden(model), &settings(Some(assistant))).expect_err("it does not fit")
    };
    let error = refused("tiny-qwen3", &assistant);
    let LoadError::Assistant { mismatch, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(*mismatch, AssistantMismatch::Family { family: "qwen3" });
    for part in ["draft.model", "assistant.gguf", "tiny-qwen3", "Gemma 4"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    let error = refused("tiny-gemma4", &wider).to_string();
    for part in ["wider.gguf", "nextn.pre_projection.weight"] {
        assert!(error.contains(part), "{error}");
    }
    for assistant in [&assistant, &golden("assistant")] {
        let error = Checkpoint::open(assistant).expect_err("it is no model");
        assert!(error.to_string().contains("draft.model"), "{error}");
    }
}

/// The weights of an assistant count for admission, and a refusal names it.
#[test]
fn an_assistant_is_admitted_with_its_model() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let meminfo = folder.path().join("meminfo");
    let checkpoint = Checkpoint::open(&golden("tiny-gemma4")).expect("it opens");
    let assistant = golden("assistant");
    let admit = |kilobytes: u64, assistant: Option<&Path>| {
        let text = format!("MemAvailable:   {kilobytes} kB\n");
        std::fs::write(&meminfo, text).expect("it is written");
        let settings = Settings {
            meminfo: meminfo.clone(),
            groups: None,
            reserve: 0,
            // A head is needed, and the assistant is one.
            head: assistant.map_or(Head::Off, |_| Head::Required),
            ..settings(assistant)
        };
        load::admit(&checkpoint, &settings, load::Target::Cpu)
    };
    let needs = |assistant| {
        let admitted = admit(1 << 30, assistant).expect("there is plenty");
        admitted.estimate
    };
    let (alone, both) = (needs(None), needs(Some(&assistant)));
    // The matrices have 16 bits.
    assert!(both.weights > alone.weights + 100_000, "{both:?}");
    assert_eq!(both.kv, alone.kv);
    let between = alone.bytes().midpoint(both.bytes()) >> 10;
    admit(between, None).expect("it fits alone");
    let error = admit(between, Some(&assistant)).expect_err("both do not fit");
    assert!(error.to_string().contains("golden/assistant"), "{error}");
}

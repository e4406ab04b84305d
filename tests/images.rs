//! Prompts with images on the CPU against references of transformers (`tests/golden/README.md`), and what they refuse.

mod reference;

use std::path::{Path, PathBuf};

use ganglion::executor::{ExecuteError, ImageError};
use ganglion::kv::KvType;
use ganglion::load::{self, Backend, Precision, Settings};
use ganglion::model::Checkpoint;
use ganglion::runner::{MixedPrompt, PromptImage, PromptInput, RunError, Runner};
use ganglion::sampler::Parameters;

use self::reference::{Case, cases, write};
use crate::support::needs;
use crate::towers;

const NAMES: [&str; 7] = [
    "qwen3_vl",
    "qwen3_5",
    "gemma3",
    "gemma4",
    "gemma4_dense",
    "smolvlm",
    "lfm2_vl",
];

/// Bounds of |delta logprob|, mean and maximum: ten times the noise of float32.
const F32: [f64; 2] = [2e-5, 5e-4];

fn runner(model: &Path, prefill_chunk: usize) -> Runner {
    let checkpoint = Checkpoint::open(model);
    let checkpoint = checkpoint.unwrap_or_else(|error| panic!("{}: {error}", model.display()));
    let settings = Settings {
        backend: Backend::Cpu,
        kv_type: KvType::F32.into(),
        precision: Precision::F32,
        context: 512,
        threads: 2,
        prefill_chunk,
        ..Settings::default()
    };
    load::runner(&checkpoint, &settings, &mut |_, _| {}).expect("it loads")
}

/// The log probability of a token, and the most probable one.
fn logprob(logits: &[f32], token: usize) -> f64 {
    let greatest = logits.iter().copied().fold(f32::MIN, f32::max);
    let sum: f64 = logits
        .iter()
        .map(|logit| f64::from(logit - greatest).exp())
        .sum();
    f64::from(logits[token] - greatest) - sum.ln()
}

fn argmax(logits: &[f32]) -> usize {
    let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    best.expect("there are logits").0
}

fn assert_meets(what: &str, runner: &mut Runner, case: &Case, [mean, max]: [f64; 2]) {
    let images = case.images();
    let inputs = case.inputs(&images);
    let prompt = MixedPrompt {
        inputs: &inputs,
        images: &images,
    };
    if let Some((rows, offset)) = &case.positions {
        let positions = prompt.positions(0, 0).expect("all rows are there");
        assert_eq!(
            (&positions.rows, positions.offset),
            (rows, *offset),
            "{what}"
        );
    }
    let (mut deltas, mut best) = (Vec::new(), Vec::new());
    let logits = |logits: &[f32]| {
        let at = best.len();
        best.push(argmax(logits));
        if let Some(Some(expected)) = case.logprobs.get(at) {
            let found = logprob(logits, case.ids[at + 1] as usize);
            deltas.push((found - expected).abs());
        }
        if at + 1 == case.ids.len() {
            let last = case.last.iter();
            deltas.extend(last.map(|(id, expected)| (logprob(logits, *id) - expected).abs()));
        }
    };
    runner.prompt_logits(prompt, logits).expect("it runs");
    #[allow(clippy::cast_precision_loss)] // logprobs are few
    let found = [
        deltas.iter().sum::<f64>() / deltas.len() as f64,
        deltas.iter().copied().fold(0.0, f64::max),
    ];
    println!("{what}: mean {:.2e}, max {:.2e}", found[0], found[1]);
    assert!(found[0] <= mean && found[1] <= max, "{what}: {found:?}");
    let wrong = best.iter().zip(&case.argmax).position(|(a, b)| a != b);
    assert_eq!(
        wrong, None,
        "{what}: argmax {best:?}, not {:?}",
        case.argmax
    );
    runner
        .prompt(None, 0, prompt, Parameters::default())
        .expect("it runs");
    let mut greedy = vec![runner.token()];
    while greedy.len() < case.greedy.len() {
        greedy.push(runner.step(true).expect("it steps"));
    }
    assert_eq!(greedy, case.greedy, "{what}: greedy");
}

/// All families, where their references are unpacked.
#[test]
fn images_meet_their_references() {
    let Some(root) = needs::towers() else {
        return;
    };
    for name in NAMES {
        let folder = root.join(format!("tiny-{name}"));
        let all = cases(
            &folder.join("golden.json"),
            &folder.join("tensors.safetensors"),
        );
        assert_eq!(all.len(), 3, "text, one and wide");
        let mut whole = runner(&folder, 128);
        for case in &all {
            let what = format!("{name} {}", case.name);
            assert_meets(&what, &mut whole, case, F32);
        }
        let mmproj = root.join(format!("tiny-{name}.mmproj-f16.gguf"));
        let file = root.join(format!("tiny-{name}.q8_0.gguf"));
        let stated = root.join(format!("tiny-{name}.q8_0.gguf.golden.json"));
        let (mut quantized, mut encoded) = (runner(&file, 96), Vec::new());
        let others = cases(&stated, &folder.join("tensors.safetensors"));
        for (mut case, like) in others.into_iter().zip(&all) {
            if case.name != "text" {
                case.embed(&folder, &mut towers::tower(&mmproj, 640), like);
            }
            let what = format!("{name} as GGUF, {}", case.name);
            assert_meets(&what, &mut quantized, &case, F32);
            encoded.push(case);
        }
        if let Some(out) = std::env::var_os("GANGLION_VISION_WRITE") {
            let file = format!("tiny-{name}.prompts.safetensors");
            write(&Path::new(&out).join(file), &encoded);
        }
    }
}

fn golden(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/vision");
    root.join(name)
}

/// The cases in the repository, and their model.
fn stored(name: &str) -> (Vec<Case>, PathBuf) {
    let file = |kind: &str| golden(&format!("tiny-{name}.{kind}"));
    let cases = cases(&file("prompts.json"), &file("prompts.safetensors"));
    (cases, file("q8_0.gguf"))
}

/// Positions of three parts and further embeddings (Qwen3-VL), and rows that see each other (Gemma 3).
#[test]
fn images_in_gguf_models_meet_their_references() {
    for name in ["qwen3_vl", "gemma3"] {
        let (cases, model) = stored(name);
        assert_eq!(cases.len(), 2, "one and wide");
        let mut runner = runner(&model, 96);
        for case in cases {
            assert_meets(&format!("{name} {}", case.name), &mut runner, &case, F32);
        }
    }
}

/// A prompt with images allocates nothing.
#[test]
fn the_memory_of_prompts_with_images_is_reserved() {
    let (cases, model) = stored("qwen3_vl");
    let mut runner = runner(&model, 96);
    let text = runner.memory().activations;
    runner.reserve_images().expect("there is memory");
    let reserved = runner.memory().activations;
    assert!(reserved > text);
    for case in &cases {
        let images = case.images();
        let inputs = case.inputs(&images);
        let prompt = MixedPrompt {
            inputs: &inputs,
            images: &images,
        };
        let ran = runner.prompt(None, 0, prompt, Parameters::default());
        ran.expect("it runs");
    }
    assert_eq!(runner.memory().activations, reserved);
}

/// All logits of a prompt, and greedy tokens after it.
fn outcome(runner: &mut Runner, case: &Case) -> Result<(Vec<f32>, Vec<u32>), RunError> {
    let images = case.images();
    let inputs = case.inputs(&images);
    let prompt = MixedPrompt {
        inputs: &inputs,
        images: &images,
    };
    let (mut all, mut greedy) = (Vec::new(), Vec::new());
    runner.prompt_logits(prompt, |logits| all.extend_from_slice(logits))?;
    runner.prompt(None, 0, prompt, Parameters::default())?;
    for _ in 0..12 {
        greedy.push(runner.token());
        runner.step(true)?;
    }
    Ok((all, greedy))
}

/// The bits do not depend on where a prompt is cut. An image whose rows see each other is never cut.
#[test]
fn slices_change_no_bits() {
    for name in ["qwen3_vl", "gemma3"] {
        let (cases, model) = stored(name);
        let whole = outcome(&mut runner(&model, 96), &cases[0]).expect("it runs");
        for chunk in [16, 19] {
            let cut = outcome(&mut runner(&model, chunk), &cases[0]).expect("it runs");
            assert!(cut == whole, "{name} in slices of {chunk}");
        }
        let cut = outcome(&mut runner(&model, 5), &cases[0]);
        if name == "gemma3" {
            let refused = ExecuteError::Images(ImageError::Cut { row: 8 });
            assert_eq!(cut, Err(RunError::Execute(refused)));
        } else {
            assert!(cut.expect("it runs") == whole, "{name} in slices of 5");
        }
    }
}

/// Two prompts of equal text with different images share no page of the cache with rows of images.
#[test]
fn different_images_of_equal_size_are_not_shared() {
    let (cases, model) = stored("gemma3");
    let mut runner = runner(&model, 96);
    let expected = outcome(&mut runner, &cases[0]).expect("it runs");
    let other = cases[0].darker();
    let changed = outcome(&mut runner, &other).expect("it runs");
    assert!(changed.1 != expected.1, "the image matters");
    let again = outcome(&mut runner, &cases[0]).expect("it runs");
    assert!(again == expected);
}

#[test]
fn prompts_that_do_not_fit_are_refused() {
    let (cases, model) = stored("qwen3_vl");
    let mut runner = runner(&model, 96);
    let case = &cases[0];
    let images = case.images();
    let inputs = case.inputs(&images);
    let mut refused = |inputs: &[PromptInput], images: &[PromptImage<'_>]| {
        let prompt = MixedPrompt { inputs, images };
        let refused = runner.prompt(None, 0, prompt, Parameters::default());
        refused.expect_err("it is refused")
    };
    let first = inputs
        .iter()
        .position(|input| matches!(input, PromptInput::Image { .. }));
    let first = first.expect("there is an image");
    let mut missing = inputs.clone();
    missing.remove(first + 3);
    assert_eq!(
        refused(&missing, &images),
        RunError::ImageRow { at: first + 3 }
    );
    assert_eq!(refused(&inputs, &[]), RunError::ImageRow { at: first });
    let cut = &inputs[..first + 2];
    assert_eq!(refused(cut, &images), RunError::ImageRow { at: first + 2 });
    let grid = [2, 5];
    let other = refused(&inputs, &[PromptImage { grid, ..images[0] }]).to_string();
    assert!(other.contains("12 tokens has no 2 rows of 5"), "{other}");
    let mut flat = images[0].embeddings.clone();
    flat.deepstack.pop();
    let embeddings = &flat;
    let image = PromptImage {
        embeddings,
        ..images[0]
    };
    let other = refused(&inputs, &[image]).to_string();
    assert!(other.contains("2 further embeddings"), "{other}");
}

/// A config.json names the tokens that stand for images; no answer has them, however probable they are.
#[test]
fn placeholders_are_never_chosen() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tiny-qwen3");
    let copy = tempfile::tempdir().expect("a temporary directory");
    let copied = |file: &str| copy.path().join(file);
    std::fs::copy(
        folder.join("model.safetensors"),
        copied("model.safetensors"),
    )
    .expect("a copy");
    let text = std::fs::read_to_string(folder.join("config.json")).expect("golden data");
    let mut config: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let prompt = [3, 1, 4, 1, 5];
    let answer = |config: &serde_json::Value| {
        std::fs::write(copied("config.json"), config.to_string()).expect("it is written");
        let mut runner = runner(copy.path(), 64);
        let begun = runner.begin(None, 0, &prompt, Parameters::default());
        assert_eq!(begun.expect("it begins"), 0);
        runner.prefill_all(&prompt).expect("it runs");
        let mut answer = vec![runner.token()];
        while answer.len() < 8 {
            answer.push(runner.step(true).expect("it steps"));
        }
        answer
    };
    let usual = answer(&config);
    config["image_token_id"] = usual[2].into();
    let other = answer(&config);
    assert_eq!(other.iter().position(|token| *token == usual[2]), None);
    let first = usual.iter().position(|token| *token == usual[2]);
    let first = first.expect("it is there");
    assert_eq!(other[..first], usual[..first]);
    assert_ne!(other, usual);
}

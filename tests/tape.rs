//! The check of a tape before its first run, and errors for values that are not finite.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use ganglion::executor::ExecuteError;
use ganglion::graph::{GraphOptions, Mode};
use ganglion::kv::KvType;
use ganglion::load::{self, Backend, Settings};
use ganglion::model::Checkpoint;
use ganglion::model::forward::Forward;
use ganglion::model::shape::MixerShape;
use ganglion::quant::DType;
use ganglion::runner::RunError;
use ganglion::sampler::Parameters;
use ganglion::tape::{
    Buffer, Ending, Input, KvInfo, Op, Recurrent, StateHeads, StateInfo, StatePool, StepBytes,
    Tape, UpdateRule, WeightId, WeightInfo,
};

fn golden(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    folder.join(name)
}

fn tiny() -> PathBuf {
    golden("tiny-qwen3")
}

fn forward(model: &Path) -> Forward {
    let checkpoint = Checkpoint::open(model).expect("the golden models open");
    let shape = checkpoint.shape.clone();
    let mut infos = Vec::new();
    let weights = checkpoint.tensors.try_map(|tensor| {
        let (name, rows, columns) = (tensor.name.clone(), tensor.rows, tensor.columns);
        let format = tensor.format;
        infos.push(WeightInfo {
            name,
            rows,
            columns,
            format,
        });
        Ok::<_, ()>(WeightId(infos.len() - 1))
    });
    let kv = KvInfo {
        kinds: shape.kv_kinds(),
        context: 64,
        slots: 1,
        pages: 1,
        chunk: 1,
        types: KvType::F16.into(),
        run: 64,
        state_bytes: 0,
    };
    let weights = weights.expect("nothing fails");
    Forward {
        state: shape.state(StatePool {
            slots: 1,
            owned: 1,
            spares: 1,
        }),
        shape,
        weights,
        guess: None,
        infos: infos.into(),
        activation: DType::F16,
        kv,
    }
}

/// The mistake, the change that makes it, and the text of the error.
type Case = (&'static str, fn(&mut Tape), &'static str);

/// A tape with a single mistake is refused with its reason.
#[test]
fn a_tape_with_one_mistake_is_refused() {
    let forward = forward(&tiny());
    let whole = forward.tape(4, Input::Prompt, Ending::Token);
    whole.check().expect("what `forward` writes is right");
    forward
        .tape(1, Input::Step, Ending::Token)
        .check()
        .expect("and so is a step");

    let wrong: [Case; 10] = [
        (
            "read before write",
            |tape| {
                tape.ops.remove(0);
            },
            "before it is written",
        ),
        (
            "an operation twice removed",
            |tape| {
                tape.ops.remove(2);
            },
            "before it is written",
        ),
        (
            "no choice",
            |tape| {
                tape.ops.pop();
            },
            "exactly if it ends with one",
        ),
        (
            "an alias",
            |tape| set_rotated(tape, |q| q),
            "written while it is read",
        ),
        (
            "no such buffer",
            |tape| set_rotated(tape, |_| Buffer(99)),
            "does not exist",
        ),
        (
            "a buffer too narrow",
            |tape| tape.buffers[4].columns -= 1,
            "columns",
        ),
        (
            "a buffer of the wrong type",
            |tape| tape.buffers[5].dtype = DType::F32,
            "attended is f32",
        ),
        ("a weight of another shape", reshape, ", not "),
        (
            "a layer that the cache lacks",
            |tape| tape.kv.kinds[0].layers -= 1,
            "is not in the cache",
        ),
        (
            "heads that no block of the cache divides",
            |tape| (tape.kv.types, tape.kv.kinds[0].head_dim) = (KvType::Q8_0.into(), 24),
            "not a multiple of 16",
        ),
    ];
    refuse(&whole, &wrong);
}

/// Checks that each mistake in a tape is refused.
fn refuse(whole: &Tape, wrong: &[Case]) {
    for (what, break_it, reason) in wrong {
        let mut tape = whole.clone();
        break_it(&mut tape);
        let error = tape.check().expect_err(what).to_string();
        assert!(error.contains(reason), "{what}: {error}");
    }
}

/// The same for models with recurrent layers.
#[test]
fn a_tape_with_a_mistake_in_a_recurrent_layer_is_refused() {
    let delta_net = forward(&golden("tiny-qwen3_5"));
    let prompt = delta_net.tape(4, Input::Prompt, Ending::Token);
    prompt.check().expect("what `forward` writes is right");
    let step = delta_net.tape(1, Input::Step, Ending::Token);
    step.check().expect("and so is a step");

    let late_commit = "has to commit before its first recurrent layer";
    let early_swap = "has to end with the swap";
    let wrong: [Case; 13] = [
        (
            "no commit",
            |tape| {
                remove(tape, &Recurrent::Commit);
            },
            late_commit,
        ),
        (
            "a commit after the first layer",
            |tape| {
                let commit = remove(tape, &Recurrent::Commit);
                let first = place(tape, |op| op.layer().is_some());
                tape.ops.insert(first + 1, commit);
            },
            late_commit,
        ),
        (
            "no swap",
            |tape| {
                remove(tape, &Recurrent::Swap);
            },
            early_swap,
        ),
        (
            "a swap before the token is chosen",
            |tape| {
                let swap = remove(tape, &Recurrent::Swap);
                tape.ops.insert(tape.ops.len() - 1, swap);
            },
            early_swap,
        ),
        (
            "a swap before the layers",
            |tape| {
                let swap = remove(tape, &Recurrent::Swap);
                let first = place(tape, |op| op.layer().is_some());
                tape.ops.insert(first, swap);
            },
            early_swap,
        ),
        (
            "a layer that the state lacks",
            |tape| state(tape).layers -= 1,
            "layer 2 is not in a state of 2",
        ),
        (
            "no state",
            |tape| tape.state = None,
            "the tape has no recurrent state",
        ),
        (
            "a tap too few",
            |tape| state(tape).taps -= 1,
            ", not 1 x 768",
        ),
        (
            "a tap too many",
            |tape| state(tape).taps += 1,
            ", not 1 x 1280",
        ),
        (
            "no taps",
            |tape| state(tape).taps = 0,
            "needs a tap for its own row",
        ),
        (
            "channels that the heads do not have",
            |tape| heads(tape).key_dim -= 1,
            "the convolution has 256 channels, not 252",
        ),
        (
            "heads that cannot share keys",
            |tape| heads(tape).key_heads = 3,
            "4 heads cannot share 3 key heads",
        ),
        (
            "heads of another rule",
            |tape| heads(tape).rule = UpdateRule::Additive,
            "the state has no heads of the rule Delta",
        ),
    ];
    refuse(&prompt, &wrong);
    let wrong: [Case; 1] = [(
        "a swap in a step",
        |tape| tape.ops.push(Op::Recurrent(Recurrent::Swap)),
        "a step writes no spare state",
    )];
    refuse(&step, &wrong);
}

/// The place of the first recurrent operation of a kind.
fn place(tape: &Tape, is: impl Fn(&Recurrent) -> bool) -> usize {
    let mut ops = tape.ops.iter();
    let place = ops.position(|op| matches!(op, Op::Recurrent(op) if is(op)));
    place.expect("the tape has one")
}

fn remove(tape: &mut Tape, one: &Recurrent) -> Op {
    let at = place(tape, |op| op == one);
    tape.ops.remove(at)
}

fn state(tape: &mut Tape) -> &mut StateInfo {
    tape.state.as_mut().expect("the tape has a state")
}

fn heads(tape: &mut Tape) -> &mut StateHeads {
    state(tape).heads.as_mut().expect("its layers have heads")
}

fn set_rotated(tape: &mut Tape, to: impl Fn(Buffer) -> Buffer) {
    for op in &mut tape.ops {
        if let Op::RopeStore { q, rotated, .. } = op {
            *rotated = to(*q);
        }
    }
}

fn reshape(tape: &mut Tape) {
    let mut weights = tape.weights.to_vec();
    weights
        .iter_mut()
        .filter(|weight| weight.rows > 1)
        .for_each(|weight| weight.rows -= 1);
    tape.weights = weights.into();
}

/// A step moves at least its weights, and more with a longer cache.
#[test]
fn a_step_must_move_its_weights_and_its_cache() {
    let forward = forward(&tiny());
    let mut step = forward.tape(1, Input::Step, Ending::Token);
    let weights: usize = forward
        .infos
        .iter()
        .map(|weight| weight.rows * weight.format.row_bytes(weight.columns))
        .sum();
    let bytes = StepBytes::of(&step);
    let first = bytes.at(0);
    // The head reads the whole tied embedding; the lookup reads one more row.
    assert!(first >= weights as u64, "{first} < {weights}");
    assert!(first < 2 * weights as u64, "{first} counts weights twice");
    let kinds = forward.kv.kinds.iter();
    let per_position = kinds.map(|kind| kind.layers * kind.position_bytes(forward.kv.types));
    let per_position = per_position.sum::<usize>() as u64;
    assert_eq!(bytes.at(10) - first, 10 * per_position);

    // With different windows per layer it is still the sum of its operations.
    let attends = step.ops.iter_mut().filter_map(|op| match op {
        Op::Attend { attention, .. } => Some(attention),
        _ => None,
    });
    for (attention, window) in attends.zip([None, NonZeroUsize::new(4)].into_iter().cycle()) {
        attention.window = window;
    }
    let bytes = StepBytes::of(&step);
    for position in [0, 3, 4, 40] {
        let each = step.ops.iter().map(|op| op.bytes(&step, position));
        assert_eq!(bytes.at(position), each.sum::<u64>(), "{position}");
    }
}

/// A model with values that are not finite gives an error without a token; earlier conversations stay.
#[test]
fn values_that_are_not_finite_are_an_error() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(tiny().join(file), folder.path().join(file)).expect("golden data is there");
    }
    let path = folder.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).expect("it was copied");
    let header = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    // All data become infinite, so that any first tensor gives an infinite product.
    let data = usize::try_from(8 + header).expect("a header of kilobytes");
    for value in bytes[data..].as_chunks_mut::<4>().0 {
        *value = f32::INFINITY.to_le_bytes();
    }
    std::fs::write(&path, bytes).expect("it is ours");
    let checkpoint = Checkpoint::open(folder.path()).expect("its shapes are right");
    let settings = Settings {
        backend: Backend::Cpu,
        context: 64,
        threads: 1,
        ..Settings::default()
    };
    let mut runner = load::runner(&checkpoint, &settings, &mut |_, _| {}).expect("it loads");
    for _ in 0..2 {
        let cached = runner
            .begin(None, 0, &[1, 2, 3], Parameters::default())
            .expect("the CPU is there");
        let error = runner
            .prefill(&[1, 2, 3], Ending::Token)
            .expect_err("no token can be chosen");
        assert!(
            matches!(
                error,
                RunError::Execute(ExecuteError::NonFinite { position: 2 })
            ),
            "{error}"
        );
        assert_eq!((cached, runner.len()), (0, 0));
    }
}

/// Prompts recorded at the start are replayed by the first request, with the same token.
#[test]
fn prompts_recorded_at_the_start_serve_the_first_request() {
    let checkpoint = Checkpoint::open(&tiny()).expect("the golden models open");
    let first = |mode, record_at_start| {
        let settings = Settings {
            backend: Backend::Cpu,
            context: 64,
            rows: 8,
            threads: 1,
            prefill_chunk: 16,
            graph: GraphOptions {
                mode,
                capture_sizes: vec![8, 16, 32],
                record_at_start,
                ..GraphOptions::default()
            },
            ..Settings::default()
        };
        let mut runner = load::runner(&checkpoint, &settings, &mut |_, _| {}).expect("it loads");
        let recorded = runner.prompt_graphs().recordings;
        let prompt = [5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
        let begun = runner.begin(None, 0, &prompt, Parameters::default());
        begun.expect("the CPU is there");
        runner.prefill(&prompt, Ending::Token).expect("it fits");
        let counts = runner.prompt_graphs();
        (runner.token(), recorded, counts.recordings, counts.launches)
    };
    let (token, ..) = first(Mode::None, true);
    // Two sizes fit a chunk, and each has two endings.
    assert_eq!(first(Mode::Full, true), (token, 4, 4, 1));
    assert_eq!(first(Mode::Full, false), (token, 0, 1, 1));
}

/// A quantized cache needs heads that its blocks divide, which is checked before the weights are loaded.
#[test]
fn heads_that_no_block_divides_have_no_cache_of_quants() {
    let mut checkpoint = Checkpoint::open(&tiny()).expect("the golden models open");
    let settings = Settings {
        backend: Backend::Cpu,
        kv_type: KvType::Q8_0.into(),
        context: 64,
        threads: 1,
        ..Settings::default()
    };
    let load = |checkpoint: &Checkpoint| load::runner(checkpoint, &settings, &mut |_, _| {});
    assert!(load(&checkpoint).is_ok());
    for layer in &mut checkpoint.shape.layers {
        if let Some(MixerShape::Attention(attention)) = &mut layer.mixer {
            attention.head_dim = 24;
        }
    }
    let error = load(&checkpoint).expect_err("24 is not a multiple of 16");
    assert_eq!(
        error.to_string(),
        "kv.type = \"q8_0\" takes heads of a multiple of 16, and the model's have 24: use kv.type = \"f16\""
    );
}

//! The types of K and V: the allowed pairs, the choice of "auto", and the effect of a measurement.

use std::path::{Path, PathBuf};

use ganglion::kv::{KvType, KvTypes};
use ganglion::load::{self, Backend, KvChoice, KvChoices, KvMemory, Settings};
use ganglion::model::Checkpoint;
use ganglion::runner::{KEY_BOUND, KeyReason, Runner};
use ganglion::sampler::Parameters;

use crate::support::tiny_gguf;

const AUTO: KvChoices = KvChoices {
    k: KvChoice::Auto,
    v: KvChoice::Auto,
};
const CONTEXT: usize = 128;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

fn settings(kv_type: impl Into<KvChoices>) -> Settings {
    Settings {
        backend: Backend::Cpu,
        kv_type: kv_type.into(),
        context: CONTEXT,
        kv_memory: KvMemory::Conversations(2),
        threads: 1,
        prefill_chunk: 16,
        probe: (0..100).map(|at| (at * 37 + 11) % 256).collect(),
        ..Settings::default()
    }
}

fn load(model: &Path, settings: &Settings) -> Runner {
    let checkpoint = Checkpoint::open(model).expect("the model opens");
    load::runner(&checkpoint, settings, &mut |_, _| {}).expect("it fits")
}

/// Returns the bits of the logits of a few tokens.
fn bits(runner: &mut Runner) -> Vec<u32> {
    let begun = runner.begin(None, 0, &[3, 1, 4], Parameters::default());
    begun.expect("it begins");
    let mut bits = Vec::new();
    let read = runner.logits(&[3, 1, 4], |row| {
        bits.extend(row.iter().map(|x| x.to_bits()));
    });
    read.expect("they are read");
    bits
}

#[test]
fn auto_selects_q8_0_where_it_does_no_harm() {
    let folder = tempfile::tempdir().expect("a folder");
    let outliers = tiny_gguf::with_outlier_keys(folder.path());
    let f16_keys = KvTypes::of(KvType::F16, KvType::Q8_0);
    for (model, types, reason) in [
        (
            golden("tiny-qwen3"),
            KvType::Q8_0.into(),
            KeyReason::Measured,
        ),
        (golden("tiny-qwen2"), f16_keys, KeyReason::Biases),
        (outliers, f16_keys, KeyReason::Measured),
    ] {
        let runner = load(&model, &settings(AUTO));
        let selection = runner.kv_selection();
        let name = model.display();
        assert_eq!(
            (selection.types, selection.reason),
            (types, reason),
            "{name}: {selection:?}"
        );
        let harms = selection.key_delta.is_some_and(|delta| delta > KEY_BOUND);
        assert_eq!(
            harms,
            types == f16_keys && reason == KeyReason::Measured,
            "{name}"
        );
        assert_eq!(selection.harm(), None, "{name}");
    }
}

/// "q8_0" is never replaced, and its effect is known.
#[test]
fn explicit_q8_0_keys_stay_and_are_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let outliers = tiny_gguf::with_outlier_keys(folder.path());
    let selection = load(&outliers, &settings(KvType::Q8_0)).kv_selection();
    assert_eq!(selection.types, KvType::Q8_0.into());
    assert!(selection.harm().is_some(), "{selection:?}");
    let values = KvTypes::of(KvType::F16, KvType::Q8_0);
    let selection = load(&outliers, &settings(values)).kv_selection();
    assert_eq!((selection.types, selection.key_delta), (values, None));
}

/// A measured model has the same answers and the same memory as one without.
#[test]
fn a_measurement_has_no_effect_afterwards() {
    let model = golden("tiny-qwen3");
    let measured = settings(KvType::Q8_0);
    let plain = Settings {
        probe: Vec::new(),
        ..measured.clone()
    };
    let mut runners = [&measured, &plain].map(|settings| load(&model, settings));
    assert!(runners[0].kv_selection().key_delta.is_some());
    assert_eq!(runners[0].memory(), runners[1].memory());
    assert_eq!(runners[0].pages(), runners[1].pages());
    assert_eq!(runners[0].graph().counters(), runners[1].graph().counters());
    let [with, without] = &mut runners;
    assert!(bits(with) == bits(without));
    // The choice of "auto" has the same room.
    let automatic = load(&model, &settings(AUTO));
    assert_eq!(automatic.pages()[0], runners[1].pages()[0]);
    assert_eq!(automatic.memory().kv, runners[1].memory().kv);
}

//! Vision towers on the CPU against references of transformers (`tests/golden/README.md`), and refused towers and images.

pub(crate) mod reference;

use std::path::{Path, PathBuf};

use ganglion::load::{self, Backend, Settings, tower_memory};
use ganglion::model::TowerCheckpoint;
use ganglion::model::tower::{Grid, TowerShape};
use ganglion::runner::{EncodeError, Tower};

use self::reference::{Case, Picture, Reference, relative};
use crate::support::needs;

/// The least differences between float32 sums in any order, times ten.
const F32: f64 = 1e-5;
/// The rounding of weights to f16.
const F16: f64 = 3e-3;

const NAMES: [&str; 7] = [
    "qwen3_vl",
    "qwen3_5",
    "gemma3",
    "gemma4",
    "gemma4_dense",
    "smolvlm",
    "lfm2_vl",
];

fn golden(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/vision");
    root.join(name)
}

fn settings(threads: usize) -> Settings {
    Settings {
        backend: Backend::Cpu,
        threads,
        ..Settings::default()
    }
}

fn open(path: &Path) -> TowerCheckpoint {
    let opened = TowerCheckpoint::open(path);
    let opened = opened.unwrap_or_else(|error| panic!("{error}"));
    opened.unwrap_or_else(|| panic!("{} has no tower", path.display()))
}

pub(crate) fn tower(path: &Path, patches: usize) -> Tower {
    let loaded = load::tower(&open(path), &settings(2), patches, &mut |_, _| {});
    loaded.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The embeddings of all pictures or tiles of a case, one after the other, and those of `DeepStack`.
pub(crate) fn embed(tower: &mut Tower, case: &Case) -> (Vec<f32>, Vec<Vec<f32>>) {
    let (mut values, mut deepstack) = (Vec::new(), Vec::<Vec<f32>>::new());
    for Picture { grid, pixels } in &case.pictures {
        let found = tower.embed(pixels, *grid).expect("it is encoded");
        assert_eq!(found.values.len(), found.tokens * found.width);
        values.extend(found.values);
        deepstack.resize(found.deepstack.len(), Vec::new());
        for (all, own) in deepstack.iter_mut().zip(found.deepstack) {
            all.extend(own);
        }
    }
    (values, deepstack)
}

/// The three hidden states that references have, of the first picture.
fn hidden(tower: &mut Tower, case: &Case) -> [Vec<f32>; 3] {
    let Picture { grid, pixels } = &case.pictures[0];
    tower.begin(pixels, *grid).expect("it begins");
    let blocks = tower.shape().blocks;
    // The first part is the patches' product, and each block has two.
    let mut hidden = [1, 3, 1 + 2 * blocks].into_iter().map(|parts| {
        while tower.progress()[0] < parts {
            tower.advance(&mut || true).expect("it is encoded");
        }
        let mut values = Vec::new();
        tower.read_hidden(&mut values).expect("it is read");
        values
    });
    let all = [(); 3].map(|()| hidden.next().expect("three states"));
    drop(hidden);
    tower.cancel();
    all
}

/// Compares the values that both have. A reference may have only the first ones, or padding after the last.
fn assert_near(what: &str, found: &[f32], expected: &[f32], bound: f64) {
    let length = found.len().min(expected.len());
    let off = relative(&found[..length], &expected[..length]);
    println!("{what}: {off:.2e}");
    assert!(off <= bound, "{what}: {off:.2e} > {bound:.0e}");
}

/// The shape in the form of config.json that transformers 5 writes.
fn newer(folder: &Path) -> TowerShape {
    let copy = tempfile::tempdir().expect("a temporary directory");
    let copied = |from: &str, to: &str| {
        std::os::unix::fs::symlink(folder.join(from), copy.path().join(to)).expect("a link");
    };
    copied("config.v5.json", "config.json");
    copied("model.safetensors", "model.safetensors");
    open(copy.path()).shape
}

/// All references, where they are unpacked: safetensors, and GGUF files in F32 and F16.
#[test]
fn towers_meet_their_references() {
    let Some(root) = needs::towers() else {
        return;
    };
    for name in NAMES {
        let folder = root.join(format!("tiny-{name}"));
        assert_eq!(
            newer(&folder),
            open(&folder).shape,
            "{name}: config.v5.json"
        );
        let mmproj = |kind: &str| root.join(format!("tiny-{name}.mmproj-{kind}.gguf"));
        let cases = reference::of_folder(&folder);
        let stated = root.join(format!("tiny-{name}.q8_0.gguf.golden.json"));
        // The projector of Gemma 3 is F16 in all GGUF files.
        let of_f32 = if name == "gemma3" { F16 } else { F32 };
        for (path, bound, of_projector) in [
            (folder.clone(), F32, F32),
            (mmproj("f32"), F32, of_f32),
            (mmproj("f16"), F16, F16),
        ] {
            let mut tower = tower(&path, 640);
            for case in &cases {
                let what = |part: &str| format!("{} {} {part}", path.display(), case.name);
                let (values, deepstack) = embed(&mut tower, case);
                assert_eq!(values.len(), case.embeds.len());
                assert_near(&what("embeds"), &values, &case.embeds, of_projector);
                assert_eq!(deepstack.len(), case.deepstack.len());
                for (found, expected) in deepstack.iter().zip(&case.deepstack) {
                    assert_near(&what("deepstack"), found, expected, of_projector);
                }
                if let Some(expected) = &case.hidden {
                    let found = hidden(&mut tower, case);
                    for (found, expected) in found.iter().zip(expected) {
                        assert_near(&what("hidden"), found, expected, bound);
                    }
                }
            }
            if path == mmproj("f16") {
                for (case, statistics) in reference::statistics(&stated, &cases) {
                    let (values, _) = embed(&mut tower, case);
                    statistics.assert(&format!("{name} {}", case.name), &values, F32);
                }
            }
        }
    }
}

/// The files in the repository: F16 weights, against the same weights in transformers.
#[test]
fn towers_in_f16_meet_their_references() {
    for name in ["qwen3_vl", "qwen3_5", "gemma3", "gemma4", "smolvlm"] {
        let mut tower = tower(&golden(&format!("tiny-{name}.mmproj-f16.gguf")), 640);
        let Reference { case, statistics } = Reference::read(&golden(&format!("tiny-{name}")));
        let (values, _) = embed(&mut tower, &case);
        assert_near(name, &values, &case.embeds, F16);
        statistics.assert(name, &values, F32);
    }
}

/// The bits of an image depend neither on the threads nor on pauses, nor on images before it.
#[test]
fn pauses_and_threads_change_no_bits() {
    let path = golden("tiny-gemma4.mmproj-f16.gguf");
    let Reference { case, .. } = Reference::read(&golden("tiny-gemma4"));
    let Picture { grid, pixels } = &case.pictures[0];
    let checkpoint = open(&path);
    let load = |threads| {
        let loaded = load::tower(&checkpoint, &settings(threads), 640, &mut |_, _| {});
        loaded.expect("it loads")
    };
    let expected = load(1).embed(pixels, *grid).expect("it is encoded");
    let mut tower = load(3);
    let small = Grid {
        rows: 3,
        columns: 6,
    };
    let first = tower.embed(&pixels[..18 * tower.shape().patch.received()], small);
    assert_eq!(first.expect("it is encoded").tokens, 2);
    tower.begin(pixels, *grid).expect("it begins");
    let mut pauses = 0;
    let found = loop {
        assert!(tower.is_encoding());
        match tower.advance(&mut || true).expect("it is encoded") {
            Some(found) => break found,
            None => pauses += 1,
        }
    };
    // After the patches' product, two parts of each block, and the projector. Then the embeddings are read.
    assert_eq!(pauses, 2 + 2 * tower.shape().blocks);
    assert!(found == expected, "pauses or threads change bits");
    assert!(!tower.is_encoding());
    assert_eq!(tower.advance(&mut || false), Ok(None));
}

/// The reserved memory is that of the estimate, and no image needs more.
#[test]
fn a_tower_needs_the_memory_that_was_stated() {
    let path = golden("tiny-qwen3_5.mmproj-f16.gguf");
    let Reference { case, .. } = Reference::read(&golden("tiny-qwen3_5"));
    let checkpoint = open(&path);
    let stated = tower_memory(&checkpoint, &settings(2), 64);
    let mut tower = tower(&path, 64);
    let [weights, reserved] = tower.memory();
    assert_eq!(weights, stated.weights);
    assert!(weights > checkpoint.weight_bytes());
    // Threads also have memory of their own.
    assert!((reserved..reserved + (1 << 20)).contains(&stated.activations));
    embed(&mut tower, &case);
    assert_eq!(tower.memory(), [weights, reserved]);
    assert!(tower_memory(&checkpoint, &settings(2), 4096).activations > 32 * reserved);
}

#[test]
fn images_that_a_tower_cannot_read_are_refused() {
    let mut tower = tower(&golden("tiny-qwen3_5.mmproj-f16.gguf"), 64);
    let each = tower.shape().patch.received();
    let mut refused = |rows, columns, values| {
        let grid = Grid { rows, columns };
        let refused = tower.embed(&vec![0.0; values], grid);
        refused.expect_err("it is refused").to_string()
    };
    assert!(refused(3, 4, 12 * each).contains("no squares of 2 x 2"));
    assert!(refused(0, 4, 0).contains("no squares of 2 x 2"));
    assert!(refused(8, 10, 80 * each).contains("exceed the 64"));
    assert!(refused(4, 4, 15 * each).contains("16 patches"));
    assert!(refused(2, 1 << 40, 0).contains("exceeds"));
    let nan = tower.embed(
        &vec![f32::NAN; 4 * each],
        Grid {
            rows: 2,
            columns: 2,
        },
    );
    assert_eq!(nan, Err(EncodeError::NonFinite));
    let mut fixed = self::tower(&golden("tiny-smolvlm.mmproj-f16.gguf"), 64);
    let refused = fixed.embed(
        &[],
        Grid {
            rows: 4,
            columns: 4,
        },
    );
    let refused = refused.expect_err("it is refused").to_string();
    assert!(refused.contains("is not 8 x 8"), "{refused}");
}

/// A file with one name replaced by another of the same length.
fn opened_with(name: &str, from: &str, to: &str) -> String {
    let mut bytes = std::fs::read(golden(name)).expect("golden data is in the repository");
    let at = bytes
        .windows(from.len())
        .position(|window| window == from.as_bytes())
        .unwrap_or_else(|| panic!("{name} has no {from}"));
    bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("mmproj.gguf");
    std::fs::write(&path, bytes).expect("it is written");
    let opened = TowerCheckpoint::open(&path);
    opened.expect_err("it is refused").defect.to_string()
}

#[test]
fn towers_that_are_not_computed_are_refused() {
    let qwen = "tiny-qwen3_5.mmproj-f16.gguf";
    let unknown = opened_with(qwen, "qwen3vl_merger", "qwen9vl_merger");
    assert!(
        unknown.contains("qwen9vl_merger") && unknown.contains("qwen3vl_merger, gemma3, gemma4v"),
        "{unknown}"
    );
    let gemma = "tiny-gemma4.mmproj-f16.gguf";
    let (from, to) = ("v.blk.1.attn_q.input_min", "v.blk.1.attn_q.input_mid");
    let unread = opened_with(gemma, from, to);
    assert!(
        unread.contains(to) && unread.contains("does not compute"),
        "{unread}"
    );
    let missing = opened_with(qwen, "v.blk.2.ln2.bias", "v.blk.2.ln2.bies");
    assert!(missing.contains("v.blk.2.ln2.bias is missing"), "{missing}");
    let gelu = opened_with(qwen, "clip.use_gelu", "clip.use_gilu");
    assert!(gelu.contains("clip.use_gelu"), "{gelu}");
    let text = golden("../tiny-qwen3_5/model.q8_0.gguf");
    let text = TowerCheckpoint::open(&text).expect_err("it is refused");
    assert!(text.to_string().contains("name the mmproj file"), "{text}");
    let none = TowerCheckpoint::open(&golden("../tiny-qwen3"));
    assert!(none.expect("it opens").is_none());
}

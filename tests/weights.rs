//! Weights in files: their values, their order, and split files.

use std::path::{Path, PathBuf};
use std::process::Command;

use ganglion::kv::KvType;
use ganglion::load::{self, Backend, Precision, Settings};
use ganglion::model::checkpoint::{Identity, ReadBuffer, files_of};
use ganglion::model::{Checkpoint, ModelError};
use ganglion::quant::{Format, random};
use ganglion::sampler::Parameters;
use safetensors::SafeTensors;

use crate::support::gguf_writer::{F32, GgufWriter};
use crate::support::needs;
use crate::support::page_cache::{self, forget};
use crate::support::tiny_gguf;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Compares a format with a file of its blocks and values, which `tests/reference/dequantize.py` writes.
fn dequantizes_as(format: Format, file: &Path) {
    let file = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let both = format.block_bytes() + 4 * format.block_len();
    assert_eq!(file.len() % both, 0, "{format:?}: these are whole blocks");
    let count = file.len() / both;
    let (blocks, expected) = file.split_at(count * format.block_bytes());
    let expected = expected.as_chunks().0.iter().copied();
    let expected: Vec<_> = expected.map(f32::from_le_bytes).collect();
    let mut values = vec![0.0; expected.len()];
    format.dequantize(blocks, &mut values);
    for (index, (value, expected)) in values.iter().zip(&expected).enumerate() {
        assert!(
            value.to_bits() == expected.to_bits() || value.is_nan() && expected.is_nan(),
            "{format:?} value {index}: {value:e}, the reference has {expected:e}"
        );
    }
}

#[test]
fn every_format_dequantizes_bit_for_bit_as_its_golden() {
    for format in Format::ALL {
        dequantizes_as(format, &golden("formats").join(format!("{format:?}")));
    }
}

/// Compares more blocks with the Python package.
#[test]
fn every_format_dequantizes_bit_for_bit_as_the_python_package_does() {
    if !needs::python() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let status = Command::new(Path::new(ROOT).join("target/venv/bin/python"))
        .arg(Path::new(ROOT).join("tests/reference/dequantize.py"))
        .arg(directory.path())
        .arg((1 << 19).to_string())
        .args(Format::ALL.map(|format| format!("{format:?}")))
        .status();
    assert!(status.unwrap().success(), "dequantize.py failed");
    for format in Format::ALL {
        dequantizes_as(format, &directory.path().join(format!("{format:?}")));
    }
}

/// Returns a model of one layer whose matrices are random blocks of a format, or the values of these blocks in F32.
fn random_model(format: Format, decoded: bool) -> GgufWriter {
    const WIDTH: usize = 256;
    let mut gguf = GgufWriter::default();
    gguf.string("general.architecture", "llama");
    for (key, value) in [
        ("block_count", 1),
        ("context_length", 64),
        ("embedding_length", 256),
        ("feed_forward_length", 512),
        ("attention.head_count", 4),
        ("attention.head_count_kv", 2),
    ] {
        gguf.u32(&format!("llama.{key}"), value);
    }
    gguf.f32("llama.attention.layer_norm_rms_epsilon", 1e-5);
    for name in ["output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"] {
        let ones = 1.0_f32.to_le_bytes().repeat(WIDTH);
        gguf.tensor(&format!("{name}.weight"), &[WIDTH], F32, &ones);
    }
    for (seed, (name, rows, columns)) in (0..).zip([
        ("token_embd", 128, WIDTH),
        ("blk.0.attn_q", WIDTH, WIDTH),
        ("blk.0.attn_k", WIDTH / 2, WIDTH),
        ("blk.0.attn_v", WIDTH / 2, WIDTH),
        ("blk.0.attn_output", WIDTH, WIDTH),
        ("blk.0.ffn_gate", 512, WIDTH),
        ("blk.0.ffn_up", 512, WIDTH),
        ("blk.0.ffn_down", WIDTH, 512),
    ]) {
        let blocks = random::matrix(seed, format, rows, columns);
        let (name, shape) = (format!("{name}.weight"), [rows, columns]);
        if decoded {
            let mut values = vec![0.0; rows * columns];
            format.dequantize(&blocks, &mut values);
            let values: Vec<u8> = values.into_iter().flat_map(f32::to_le_bytes).collect();
            gguf.tensor(&name, &shape, F32, &values);
        } else {
            gguf.tensor(&name, &shape, format.number(), &blocks);
        }
    }
    gguf
}

/// The logits of a step after a prompt, and the format's name.
fn logits_of(gguf: &GgufWriter, precision: Precision, directory: &Path) -> (Vec<f32>, String) {
    let path = directory.join("random.gguf");
    std::fs::write(&path, gguf.file()).unwrap();
    let checkpoint = Checkpoint::open(&path).unwrap();
    let settings = Settings {
        backend: Backend::Cpu,
        kv_type: KvType::F32.into(),
        context: 64,
        threads: 1,
        precision,
        ..Settings::default()
    };
    let mut runner = load::runner(&checkpoint, &settings, &mut |_, _| {}).unwrap();
    let prompt: Vec<u32> = (0..9).map(|at| at * 13 + 1).collect();
    let parameters = Parameters {
        temperature: 0.0,
        ..Parameters::default()
    };
    runner.begin(None, 0, &prompt, parameters).unwrap();
    runner.prefill_all(&prompt).unwrap();
    let entry = runner.slot();
    runner.step_rows(&[entry], false).unwrap();
    (runner.row_logits(1).unwrap(), checkpoint.quantization())
}

#[test]
fn a_model_of_every_format_computes_as_with_its_values_in_f32() {
    let directory = tempfile::tempdir().unwrap();
    for format in Format::ALL {
        let of = |decoded, precision| {
            logits_of(&random_model(format, decoded), precision, directory.path())
        };
        let (logits, name) = of(false, Precision::F32);
        let (expected, _) = of(true, Precision::F32);
        assert_eq!(name, format!("{format:?}"));
        let (rounded, _) = of(false, Precision::I16);
        let has_blocks = format.block_len() > 1;
        assert_eq!(rounded != logits, has_blocks, "{format:?}: 16 bits round");
        let deltas = rounded
            .iter()
            .zip(&logits)
            .map(|(one, other)| (one - other).abs());
        let most = deltas.fold(0.0, f32::max);
        assert!(most <= 2e-3, "{format:?}: {most} by rounding to 16 bits");
        for (token, (logit, expected)) in logits.iter().zip(&expected).enumerate() {
            assert!(
                (logit - expected).abs() <= 1e-4,
                "{format:?} token {token}: {logit}, {expected} with F32"
            );
        }
    }
}

fn golden(name: &str) -> PathBuf {
    Path::new(ROOT).join("tests/golden").join(name)
}

/// Returns every weight of a checkpoint in the model's order, a few rows at a time.
fn all_rows(checkpoint: &Checkpoint) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut buffer = ReadBuffer::default();
    let read = checkpoint.tensors.try_map(|tensor| {
        let mut bytes = Vec::new();
        // Seven does not divide a head: ranges begin and end within one.
        for start in (0..tensor.rows).step_by(7) {
            let rows = start..tensor.rows.min(start + 7);
            bytes.extend_from_slice(checkpoint.rows(tensor, rows, &mut buffer)?);
        }
        all.push(bytes);
        Ok::<_, ModelError>(())
    });
    read.unwrap();
    all
}

#[test]
fn a_converted_llama_reads_as_the_model_it_came_from() {
    let directory = tempfile::tempdir().unwrap();
    let gguf = Checkpoint::open(&tiny_gguf::tiny_llama3_rope(directory.path())).unwrap();
    let source = Checkpoint::open(&golden("tiny-llama3-rope")).unwrap();
    assert_eq!(gguf.weight_bytes(), source.weight_bytes());
    assert!(gguf.tensors.head.is_none(), "the head is tied");
    assert!(
        all_rows(&gguf) == all_rows(&source),
        "rows differ from those of the original"
    );
    let [ours, theirs] = [&gguf, &source].map(|model| &model.shape.angles[0].frequencies);
    for (ours, theirs) in ours.iter().zip(theirs) {
        assert!(
            (ours - theirs).abs() <= 1e-6 * theirs,
            "{ours:e} for {theirs:e}"
        );
    }
    let said = gguf.language_source().unwrap_err().to_string();
    assert!(said.contains("tokenizer.ggml.tokens"), "{said}");
}

#[test]
fn a_sharded_directory_reads_as_the_file_it_was_split_from() {
    let source = golden("tiny-qwen2");
    let directory = tempfile::tempdir().unwrap();
    let copy = |name: &str| std::fs::copy(source.join(name), directory.path().join(name)).unwrap();
    copy("config.json");
    let whole = std::fs::read(source.join("model.safetensors")).unwrap();
    let whole = SafeTensors::deserialize(&whole).unwrap();
    let mut shards = [Vec::new(), Vec::new(), Vec::new()];
    let mut weight_map = serde_json::Map::new();
    for (index, (name, tensor)) in whole.iter().enumerate() {
        let shard = index % shards.len();
        weight_map.insert(name.into(), format!("part-{shard}.safetensors").into());
        shards[shard].push((name, tensor));
    }
    for (index, shard) in shards.into_iter().enumerate() {
        let path = directory.path().join(format!("part-{index}.safetensors"));
        safetensors::serialize_to_file(shard, None, &path).unwrap();
    }
    let index = serde_json::json!({ "weight_map": weight_map }).to_string();
    std::fs::write(directory.path().join("model.safetensors.index.json"), index).unwrap();

    let (sharded, single) = (
        Checkpoint::open(directory.path()).unwrap(),
        Checkpoint::open(&source).unwrap(),
    );
    assert!(all_rows(&sharded) == all_rows(&single));
    let bias = |checkpoint: &Checkpoint| {
        let attention = checkpoint.tensors.layers[0].attention().unwrap();
        let bias = attention.q.bias.as_ref().unwrap();
        checkpoint.vector(bias, &mut ReadBuffer::default()).unwrap()
    };
    assert_eq!(bias(&sharded), bias(&single));
}

#[test]
fn a_split_file_reads_as_the_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let gguf = tiny_gguf::with_vocabulary();
    std::fs::write(path("whole.gguf"), gguf.file()).unwrap();
    for (number, part) in (1..).zip(gguf.parts(3)) {
        std::fs::write(path(&format!("a-0000{number}-of-00003.gguf")), part).unwrap();
    }
    let first = path("a-00001-of-00003.gguf");
    let (split, whole) = (
        Checkpoint::open(&first).unwrap(),
        Checkpoint::open(&path("whole.gguf")).unwrap(),
    );
    assert_eq!(split.shape, whole.shape);
    assert!(all_rows(&split) == all_rows(&whole));
    assert_eq!(files_of(&first).len(), 3);
    let before = Identity::of(&first).unwrap().to_string();
    let second = path("a-00002-of-00003.gguf");
    std::fs::rename(&second, path("elsewhere")).unwrap();
    let said = Checkpoint::open(&first).unwrap_err().to_string();
    let expected = "a-00002-of-00003.gguf: this part of the model is missing: fetch it";
    assert!(said.contains(expected), "{said}");
    std::fs::copy(path("a-00003-of-00003.gguf"), &second).unwrap();
    let said = Checkpoint::open(&first).unwrap_err().to_string();
    assert!(said.contains("its split.no is not 1"), "{said}");
    assert_ne!(Identity::of(&first).unwrap().to_string(), before);
}

/// Rows that the page cache has are read from it, others from the disk.
#[test]
fn rows_are_the_same_from_the_page_cache_and_from_the_disk() {
    let directory = tempfile::tempdir_in(Path::new(ROOT).join("target")).unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(golden("tiny-qwen3").join(file), directory.path().join(file)).unwrap();
    }
    let cached = all_rows(&Checkpoint::open(directory.path()).unwrap());
    forget(&directory.path().join("model.safetensors"));
    let stored = all_rows(&Checkpoint::open(directory.path()).unwrap());
    assert!(cached == stored);
}

/// A load with plenty of memory leaves the file in the page cache; otherwise the file does not stay there.
#[test]
fn a_file_stays_in_the_page_cache_if_it_is_to() {
    let directory = tempfile::tempdir_in(Path::new(ROOT).join("target")).unwrap();
    let file = directory.path().join("model.gguf");
    std::fs::write(&file, tiny_gguf::with_vocabulary().file()).unwrap();
    forget(&file);
    if page_cache::has(&file) {
        needs::missing("eviction", "use a file system that evicts pages on advice");
        return;
    }
    let checkpoint = Checkpoint::open(&file).unwrap();
    assert!(!all_rows(&checkpoint).is_empty());
    drop(checkpoint);
    assert!(!page_cache::has(&file), "it was read around the page cache");
    let checkpoint = Checkpoint::open(&file).unwrap();
    checkpoint.stay_cached();
    assert!(!all_rows(&checkpoint).is_empty());
    drop(checkpoint);
    assert!(page_cache::has(&file));
}
